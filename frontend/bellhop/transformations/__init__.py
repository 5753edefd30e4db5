"""grad, jacobian, jvp, vjp and vmap of hybrid functions, and inline tracing."""
