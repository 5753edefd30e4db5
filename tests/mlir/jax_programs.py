"""Programs of plain JAX, among which is every operation that its lowerings emit for a CPU."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

X = np.linspace(0.1, 0.9, 12).reshape(3, 4)
SQUARE = np.eye(3) * 4 + np.arange(9.0).reshape(3, 3) / 10
N = np.arange(1, 13).reshape(3, 4)
Z = X + 1j * X[::-1]
IMAGES = np.arange(2 * 8 * 8 * 3.0).reshape(2, 8, 8, 3)
KERNEL = np.arange(3 * 3 * 3 * 4.0).reshape(3, 3, 3, 4)
BITS = X > 0.5
HALF = jnp.bfloat16

PROGRAMS = {}


def program(*args, name=None):
    """Register a program with its arguments."""

    def register(function):
        PROGRAMS[name or function.__name__] = function, args
        return function

    return register


def one(name, function, *args):
    """Register a program by name."""
    PROGRAMS[name] = function, args


ELEMENTWISE = (
    *("abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "cos"),
    *("cosh", "exp", "exp2", "expm1", "floor", "i0", "log", "log10", "log1p", "log2", "negative"),
    *("reciprocal", "rint", "sign", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh"),
    *("isfinite", "isnan", "isinf", "signbit", "deg2rad", "trunc", "nan_to_num", "real", "imag"),
    *("conj", "angle", "frexp", "modf", "spacing", "cumsum", "cumprod", "sort", "argsort"),
    *("unique_counts",),
)
for _name in ELEMENTWISE:
    if hasattr(jnp, _name) and _name not in ("unique_counts", "spacing"):
        one(f"numpy {_name}", getattr(jnp, _name), X)
for _name in (
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "maximum",
    "minimum",
    "arctan2",
    "hypot",
    "fmod",
    "remainder",
    "floor_divide",
    "copysign",
    "nextafter",
    "heaviside",
    "logaddexp",
    "ldexp",
    "equal",
    "less",
    "greater_equal",
    "fmax",
):
    one(f"numpy {_name}", getattr(jnp, _name), X, X[::-1] if _name != "ldexp" else N)
for _name in (
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
    "floor_divide",
    "remainder",
    "power",
    "add",
    "multiply",
):
    one(f"integer {_name}", getattr(jnp, _name), N, N[::-1])
for _name in ("bitwise_not", "bitwise_count", "sign", "abs", "negative", "cumsum", "sort"):
    if hasattr(jnp, _name):
        one(f"integers {_name}", getattr(jnp, _name), N)
for _name in (
    "exp",
    "log",
    "sqrt",
    "sin",
    "tan",
    "tanh",
    "arctanh",
    "arccos",
    "abs",
    "sort",
    "power",
    "square",
    "arcsinh",
    "cbrt",
):
    if _name == "power":
        one("complex power", lambda z: z**z, Z)
    elif _name != "cbrt":
        one(f"complex {_name}", getattr(jnp, _name), Z)
for _name in (
    "bessel_jn",
    "betainc",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp1",
    "expi",
    "expit",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0e",
    "i1",
    "i1e",
    "log_ndtr",
    "logit",
    "logsumexp",
    "ndtr",
    "ndtri",
    "polygamma",
    "xlog1py",
    "xlogy",
    "zeta",
    "rel_entr",
    "factorial",
    "hyp1f1",
    "spence",
    "bernoulli",
):
    _function = getattr(jsp.special, _name, None)
    if _function is None or _name in ("bessel_jn", "bernoulli", "hyp1f1"):
        continue
    _args = {
        "betainc": (X, X, X),
        "betaln": (X, X),
        "gammainc": (X, X),
        "gammaincc": (X, X),
        "polygamma": (N, X),
        "xlog1py": (X, X),
        "xlogy": (X, X),
        "zeta": (X + 2, X),
        "rel_entr": (X, X),
    }.get(_name, (X,))
    one(f"special {_name}", _function, *_args)
for _name in (
    "relu",
    "gelu",
    "softmax",
    "log_softmax",
    "silu",
    "elu",
    "selu",
    "softplus",
    "sigmoid",
    "leaky_relu",
    "hard_tanh",
    "glu",
    "standardize",
    "one_hot",
):
    if _name == "one_hot":
        one("nn one_hot", lambda n: jax.nn.one_hot(n, 5), N)
    else:
        one(f"nn {_name}", getattr(jax.nn, _name), X)
for _name in (
    "float32",
    "float16",
    "bfloat16",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool_",
    "complex64",
    "float8_e4m3fn",
    "float8_e5m2",
    "int4",
    "uint4",
):
    one(f"as {_name}", lambda x, t=_name: x.astype(getattr(jnp, t)), X)
    one(f"sum {_name}", lambda x, t=_name: (x.astype(getattr(jnp, t)) + 1).astype(float).sum(), X)
for _name in (
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "var",
    "std",
    "any",
    "all",
    "argmax",
    "argmin",
    "median",
    "ptp",
    "nansum",
    "nanmax",
    "count_nonzero",
    "cummax",
):
    if hasattr(jnp, _name):
        one(f"reduce {_name}", lambda x, f=_name: getattr(jnp, f)(x, axis=0), X)
for _name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
    one(f"lax {_name}", lambda x, f=_name: getattr(lax, f)(x, axis=0), X)
    one(f"lax reverse {_name}", lambda x, f=_name: getattr(lax, f)(x, axis=1, reverse=True), X)
for _name in (
    "inv",
    "det",
    "slogdet",
    "cholesky",
    "eigh",
    "eigvals",
    "eig",
    "qr",
    "svd",
    "pinv",
    "matrix_rank",
    "norm",
    "cond",
):
    one(f"linalg {_name}", getattr(jnp.linalg, _name), SQUARE)
for _name in ("expm", "lu", "lu_factor", "schur", "sqrtm", "polar", "funm", "hessenberg"):
    if hasattr(jsp.linalg, _name) and _name != "funm":
        one(f"scipy {_name}", getattr(jsp.linalg, _name), SQUARE)
one("linalg solve", jnp.linalg.solve, SQUARE, SQUARE)
one("linalg lstsq", lambda a, b: jnp.linalg.lstsq(a, b)[0], X, X[:, 0])
one("linalg matrix_power", lambda a: jnp.linalg.matrix_power(a, 5), SQUARE)
one("scipy solve_triangular", lambda a, b: jsp.linalg.solve_triangular(a, b, lower=True), SQUARE, X)
one(
    "scipy cho_solve",
    lambda a, b: jsp.linalg.cho_solve((jnp.linalg.cholesky(a), True), b),
    SQUARE,
    X,
)
one("scipy toeplitz", jsp.linalg.toeplitz, X[0])
one("lax tridiagonal", lambda x: lax.linalg.tridiagonal_solve(x[0], x[1] + 4, x[2], X.T), X)
one("lax tridiagonal form", lambda a: lax.linalg.tridiagonal(a), SQUARE)
one("lax householder", lambda a: lax.linalg.householder_product(a, a[0]), SQUARE)
one("batched cholesky", jax.vmap(jnp.linalg.cholesky), np.stack([SQUARE] * 2))
one("batched svd", jax.vmap(jnp.linalg.svd), np.stack([SQUARE] * 2))
for _name in ("fft", "ifft", "rfft", "fft2", "fftn", "rfftn", "ihfft", "fftshift"):
    one(f"fft {_name}", getattr(jnp.fft, _name), X)
one("fft irfft", jnp.fft.irfft, Z)
for _impl in ("threefry2x32", "rbg", "unsafe_rbg"):
    one(f"key {_impl}", lambda s, i=_impl: jax.random.normal(jax.random.key(s, impl=i), (5,)), 3)
    one(
        f"split {_impl}",
        lambda s, i=_impl: jax.random.key_data(jax.random.split(jax.random.key(s, impl=i), 3)),
        3,
    )
for _name in (
    "uniform",
    "bits",
    "exponential",
    "gumbel",
    "laplace",
    "cauchy",
    "rademacher",
    "logistic",
):
    one(f"random {_name}", lambda s, f=_name: getattr(jax.random, f)(jax.random.key(s), (4,)), 3)
for _name, _more in {
    "gamma": (2.0,),
    "beta": (2.0, 3.0),
    "poisson": (3.0,),
    "bernoulli": (0.3,),
    "t": (3.0,),
    "dirichlet": (np.ones(3),),
    "permutation": (5,),
    "choice": (5,),
    "categorical": (X,),
    "randint": ((4,), 0, 9),
    "truncated_normal": (-1.0, 1.0),
    "binomial": (5, 0.3),
    "multivariate_normal": (np.zeros(3), np.eye(3)),
    "geometric": (0.3,),
    "shuffle": (),
}.items():
    if hasattr(jax.random, _name) and _more:
        one(
            f"random {_name}",
            lambda s, f=_name, m=_more: getattr(jax.random, f)(jax.random.key(s), *m),
            3,
        )
for _dims in (("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")):
    one(
        f"conv {_dims[0]}",
        lambda x, k, d=_dims: lax.conv_general_dilated(x, k, (1, 2), "SAME", dimension_numbers=d),
        *(
            (IMAGES, KERNEL)
            if _dims[0] == "NHWC"
            else (IMAGES.transpose(0, 3, 1, 2), KERNEL.transpose(3, 2, 0, 1))
        ),
    )
one(
    "conv groups",
    lambda x, k: lax.conv_general_dilated(
        x, k, (1, 1), "VALID", feature_group_count=3, dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    IMAGES,
    KERNEL[:, :, :1, :3],
)
one("conv transpose", lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"), IMAGES, KERNEL)
one(
    "conv gradient",
    jax.grad(
        lambda k, x: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", rhs_dilation=(2, 1), dimension_numbers=("NHWC", "HWIO", "NHWC")
        ).sum(),
        (0, 1),
    ),
    KERNEL,
    IMAGES,
)
one("numpy convolve", jnp.convolve, X[0], X[1])
WINDOW = ((1, 2, 2, 1), (1, 2, 2, 1), "SAME")
for _name, _op, _init in (
    ("max", lax.max, -np.inf),
    ("min", lax.min, np.inf),
    ("add", lax.add, 0.0),
):
    one(f"window {_name}", lambda x, o=_op, i=_init: lax.reduce_window(x, i, o, *WINDOW), IMAGES)
    one(
        f"window gradient {_name}",
        jax.grad(lambda x, o=_op, i=_init: lax.reduce_window(x, i, o, *WINDOW).sum()),
        IMAGES,
    )
one("window general", lambda x: lax.reduce_window(x, 1.0, lax.mul, (2, 2), (1, 1), "VALID"), X)
one("reduce general", lambda x: lax.reduce(x, 0.0, lambda a, b: a + 2 * b, (0,)), X)
one(
    "reduce several",
    lambda x, n: lax.reduce((x, n), (0.0, 0), lambda a, b: (a[0] + b[0], a[1] | b[1]), (0,)),
    X,
    N,
)
one("reduce precision", lambda x: lax.reduce_precision(x, 5, 10), X)
one("sort several", lambda x, n: lax.sort((x, n), num_keys=2), X, N)
one("sort unstable", lambda x: lax.sort(x, is_stable=False), X)
one("sort descending", lambda x: jnp.sort(x, descending=True), X)
one("sort complex", lambda z: lax.sort((z, z), num_keys=1), Z)
one("sort bits", lambda b: lax.sort(b), BITS)
one("sort bfloat16", lambda x: lax.sort(x.astype(HALF)), X)
one("sort strange", lambda x: jnp.sort(x.astype(jnp.float8_e4m3fn)).astype(float), X)
one("lexsort", lambda x, n: jnp.lexsort((x, n)), X[0], N[0])
one("searchsorted", jnp.searchsorted, X[0], X[1])
one("searchsorted sort", lambda a, b: jnp.searchsorted(a, b, method="sort"), X[0], X[1])
one("top_k", lambda x: lax.top_k(x, 2), X)
one("approx_max_k", lambda x: lax.approx_max_k(x, 2), X)
one("unique", lambda n: jnp.unique(n, size=4), N)
one("partition", lambda x: jnp.partition(x, 2), X)
one("nonzero", lambda x: jnp.nonzero(x > 0.5, size=4), X)
one("histogram", lambda x: jnp.histogram(x, 4), X)
one("quantile", lambda x: jnp.quantile(x, 0.3, axis=1), X)
one("interp", lambda x: jnp.interp(x, X[0], X[1]), X)
one("gather", lambda x, n: x[n % 3], X, N)
one(
    "gather modes",
    lambda x, n: (x.at[n].get(mode="fill", fill_value=0), x.at[n].get(mode="clip")),
    X,
    N,
)
one("take_along_axis", lambda x, n: jnp.take_along_axis(x, n % 3, 0), X, N)
for _name in ("set", "add", "multiply", "min", "max", "apply", "power", "divide"):
    if _name == "apply":
        one("scatter apply", lambda x, n: x.at[n].apply(jnp.sin), X, N[0])
    else:
        one(f"scatter {_name}", lambda x, n, f=_name: getattr(x.at[n % 3], f)(2.0), X, N[0])
one("scatter gradient", jax.grad(lambda x, n: (x[n % 3] ** 2).sum()), X, N)
one("segment_sum", lambda x, n: jax.ops.segment_sum(x, n % 3, 3), X[:, 0], N[:, 0])
one("dynamic_slice", lambda x, n: lax.dynamic_slice(x, (n[0, 0], 0), (2, 2)), X, N)
one("dynamic_update_slice", lambda x, n: lax.dynamic_update_slice(x, x[:1, :1], (n[0, 0], 0)), X, N)
one("pad", lambda x: lax.pad(x, 0.0, ((1, -1, 1), (0, 2, 0))), X)
one("numpy pad", lambda x: jnp.pad(x, 2, mode="reflect"), X)
one("slices", lambda x: (x[::2, ::-1], x[1:, None], jnp.roll(x, 1, 0), jnp.flip(x)), X)
one(
    "shapes",
    lambda x: (
        x.T,
        x.reshape(2, 6),
        jnp.tile(x, 2),
        jnp.repeat(x, 2, 0),
        jnp.stack([x, x]),
        jnp.concatenate([x, x]),
        jnp.expand_dims(x, 1),
        jnp.squeeze(x[None]),
    ),
    X,
)
one(
    "constants",
    lambda x: (x + jnp.arange(4), x * jnp.eye(3, 4), jnp.tri(3), jnp.linspace(0, 1, 5)),
    X,
)
one(
    "dots",
    lambda x: (
        x @ x.T,
        jnp.einsum("ij,kj->i", x, x),
        jnp.tensordot(x, x, 2),
        jnp.kron(x, x),
        jnp.outer(x[0], x[1]),
    ),
    X,
)
one(
    "dot precision",
    lambda x: lax.dot_general(
        x, x, (((1,), (1,)), ((), ())), precision="highest", preferred_element_type=jnp.float32
    ),
    X,
)
one(
    "dot algorithm",
    lambda x: lax.dot(x, x.T, precision=lax.DotAlgorithmPreset.F32_F32_F32),
    X.astype(np.float32),
)
one("dot integers", lambda n: n @ n.T, N)
one(
    "dot bfloat16",
    lambda x: lax.dot(x.astype(HALF), x.T.astype(HALF), preferred_element_type=jnp.float32),
    X,
)
one(
    "ragged_dot",
    lambda x, k, n: lax.ragged_dot(x, k, n),
    X,
    np.ones((2, 4, 2)),
    np.array([1, 2], np.int32),
)
one("where", lambda x: jnp.where(x > 0.5, x, -x), X)
one("select_n", lambda n, x: lax.select_n(n % 3, x, 2 * x, 3 * x), N.astype(np.int32), X)
one("clip", lambda x: jnp.clip(x, 0.2, 0.7), X)
one("population", lambda n: (lax.population_count(n), lax.clz(n)), N)
one("shifts", lambda n: (lax.shift_right_arithmetic(n, n), lax.shift_right_logical(n, n)), N)
one("bitcast", lambda x: lax.bitcast_convert_type(x, jnp.uint32), X)
one("view", lambda x: x.view(jnp.uint8), X)
one("complex parts", lambda x: lax.complex(x, x) * 1j, X)
one("round", lambda x: (lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), jnp.round(x, 1)), X)
one("barrier", lambda x: lax.optimization_barrier((x, 2 * x)), X)
one("cond", lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), X)
one("switch", lambda x, n: lax.switch(n[0, 0], [jnp.sin, jnp.cos, jnp.tan], x), X, N)
one("while", lambda x: lax.while_loop(lambda x: x.sum() < 100, lambda x: 2 * x, x), X)
one("fori", lambda x: lax.fori_loop(0, 5, lambda i, x: x * i, x), X)
one("scan", lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), X)
one(
    "scan gradient",
    jax.grad(lambda x: lax.scan(lambda c, r: (jnp.sin(c * r), c), x[0], x)[0].sum()),
    X,
)
one("associative_scan", lambda x: lax.associative_scan(jnp.multiply, x), X)
one("map", lambda x: lax.map(jnp.sum, x), X)
one("custom_jvp", jax.grad(lambda x: jax.nn.relu(x).sum()), X)
one("checkpoint", jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())), X)
one("hessian", jax.hessian(lambda x: jnp.prod(jnp.sin(x))), X[0])
one("linear_solve", lambda a, b: jsp.sparse.linalg.cg(lambda v: a @ a.T @ v, b)[0], SQUARE, X[:, 0])
one(
    "custom_root",
    lambda x: lax.custom_root(
        lambda y: y**2 - x, x, lambda f, y: y - f(y) / (2 * y), lambda g, y: y / g(1.0)
    ),
    2.0,
)
one(
    "odeint",
    lambda y: __import__("jax.experimental.ode", fromlist=["odeint"]).odeint(
        lambda y, t: -y, y, jnp.linspace(0.0, 1.0, 3)
    ),
    X[0],
)
one("composite", lambda x: lax.composite(lambda x: 2 * jnp.sin(x), "my.sine")(x), X)
one("jit in jit", lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.sin)(2 * x), X)
one("no rows", lambda x: (x[:0].sum(), jnp.sort(x[:0]), x[:0] @ x.T), X)
one("map_coordinates", lambda x: jsp.ndimage.map_coordinates(x, [X[0] * 2, X[1] * 3], order=1), X)
one("resize", lambda x: jax.image.resize(x, (6, 8), "cubic"), X)
one(
    "stats",
    lambda x: (jsp.stats.norm.logpdf(x), jsp.stats.gamma.pdf(x, 2.0), jsp.stats.t.logpdf(x, 3.0)),
    X,
)
one(
    "polynomials",
    lambda x: (
        jnp.polyval(x[0], x),
        jnp.polyfit(x[0], x[1], 2),
        jnp.roots(x[0], strip_zeros=False),
    ),
    X,
)
one(
    "cross",
    lambda x: (jnp.cross(x[0, :3], x[1, :3]), jnp.cov(x), jnp.corrcoef(x), jnp.gradient(x)),
    X,
)
one("packbits", lambda b: jnp.packbits(b), BITS)
one("unpackbits", lambda x: jnp.unpackbits((x * 255).astype(jnp.uint8)), X)
one("rng_uniform", lambda x: lax.rng_uniform(0.0, 1.0, (4,)) + x[0], X)
one("rng_bit_generator", lambda n: lax.rng_bit_generator(n.astype(jnp.uint32)[0], (5,)), N)
one(
    "bcoo",
    lambda x: (
        __import__("jax.experimental.sparse", fromlist=["BCOO"]).BCOO.fromdense(x, nse=12) @ x.T
    ),
    X,
)
one("named_scope", lambda x: jax.named_scope("here")(jnp.sin)(x), X)
one(
    "vmap of while",
    jax.vmap(lambda x: lax.while_loop(lambda x: x < 10, lambda x: 2 * x + 1, x)),
    X[0],
)
one("jacfwd of solve", jax.jacfwd(lambda a: jnp.linalg.solve(a, a[0])), SQUARE)
one("gradient of eigh", jax.grad(lambda a: jnp.linalg.eigh(a + a.T)[0].sum()), SQUARE)
one("gradient of svd", jax.grad(lambda a: jnp.linalg.svd(a, compute_uv=False).sum()), SQUARE)
one("gradient of sort", jax.grad(lambda x: (jnp.sort(x) * jnp.arange(4)).sum()), X[0])
one("gradient of cumprod", jax.grad(lambda x: jnp.cumprod(x).sum()), X[0])
one("gradient of cummax", jax.grad(lambda x: lax.cummax(x).sum()), X[0])
one("attention", lambda x: jax.nn.dot_product_attention(x, x, x), IMAGES[:, :4, :4])
