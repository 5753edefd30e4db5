"""grad, jacobian, jvp, vjp and vmap of hybrid functions, and how functions are traced."""
