"""Allow-list of operations for modules of unknown origin.

XLA trusts its input: some operations, attributes and element types abort the process or write out
of bounds.  A saved module may therefore have only operations that JAX's lowerings emit for a CPU
with static shapes, which ``tests/mlir/test_honest_modules.py`` tries with some 300 programs on each
supported version of JAX.  JAX 0.10 emits ``chlo.asin``; 0.12 emits ``result_accuracy``, and
``is_stable`` of ``chlo.top_k``; all else is the same in 0.10, 0.11 and 0.12.

Left out, although StableHLO has them and a static type fits: ``set_dimension_size`` and all dynamic
operations (XLA trusts the computed size), collectives, infeed, send and tuples (they wait for
something outside of the program), ``partition_id`` (a saved program runs on one device),
quantized types, floats of four and six bits, integers of one and two bits.
"""

_ELEMENTWISE = (
    *(
        "abs",
        "add",
        "and",
        "atan2",
        "bitcast_convert",
        "cbrt",
        "ceil",
        "clamp",
        "complex",
        "convert",
    ),
    *("cosine", "count_leading_zeros", "divide", "exponential", "exponential_minus_one", "floor"),
    *("imag", "is_finite", "log", "log_plus_one", "logistic", "maximum", "minimum", "multiply"),
    *("negate", "not", "or", "popcnt", "power", "real", "remainder", "reshape"),
    *("round_nearest_afz", "round_nearest_even", "rsqrt", "select", "shift_left"),
    *("shift_right_arithmetic", "shift_right_logical", "sign", "sine", "sqrt", "subtract", "tan"),
    *("tanh", "xor"),
)
_CHLO = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "conj", "cosh", "digamma"),
    *("erf", "erf_inv", "erfc", "is_inf", "is_neg_inf", "is_pos_inf", "lgamma", "next_after"),
    *("polygamma", "sinh", "square", "tan", "zeta"),
)
# Attributes of the operations that have some.
_WITH_ATTRIBUTES = {
    "broadcast_in_dim": ("broadcast_dimensions",),
    "case": (),
    "cholesky": ("lower",),
    "compare": ("compare_type", "comparison_direction"),
    "composite": ("composite_attributes", "decomposition", "name", "version"),
    "concatenate": ("dimension",),
    "constant": ("value",),
    "convolution": (
        *("batch_group_count", "dimension_numbers", "feature_group_count", "lhs_dilation"),
        *("padding", "precision_config", "rhs_dilation", "window_reversal", "window_strides"),
    ),
    # verify_call checks the target and its operands.
    "custom_call": (
        *("api_version", "backend_config", "call_target_name", "called_computations"),
        *("has_side_effect", "mhlo.backend_config", "mhlo.frontend_attributes"),
        *("operand_layouts", "output_operand_aliases", "result_layouts"),
    ),
    "dot_general": ("algorithm", "dot_dimension_numbers", "precision_config"),
    "dynamic_slice": ("slice_sizes",),
    "dynamic_update_slice": (),
    "fft": ("fft_length", "fft_type"),
    "gather": ("dimension_numbers", "indices_are_sorted", "slice_sizes"),
    "if": (),
    "iota": ("iota_dimension",),
    "map": ("dimensions",),
    "optimization_barrier": (),
    "pad": ("edge_padding_high", "edge_padding_low", "interior_padding"),
    "reduce": ("dimensions",),
    "reduce_precision": ("exponent_bits", "mantissa_bits"),
    "reduce_window": (
        *("base_dilations", "padding", "window_dilations", "window_dimensions"),
        "window_strides",
    ),
    "return": (),
    "reverse": ("dimensions",),
    "rng": ("rng_distribution",),
    "rng_bit_generator": ("rng_algorithm",),
    "scatter": ("indices_are_sorted", "scatter_dimension_numbers", "unique_indices"),
    "select_and_scatter": ("padding", "window_dimensions", "window_strides"),
    "slice": ("limit_indices", "start_indices", "strides"),
    "sort": ("dimension", "is_stable"),
    "transpose": ("permutation",),
    "triangular_solve": ("left_side", "lower", "transpose_a", "unit_diagonal"),
    "while": (),
}

# Attributes of each operation in MLIR's and StableHLO's dialects.
ATTRIBUTES: dict[str, frozenset[str]] = {
    "func.func": frozenset(
        ("arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility", "no_inline")
    ),
    "func.call": frozenset(("callee", "no_inline")),
    "func.return": frozenset(),
    "chlo.top_k": frozenset(("is_stable", "k")),
    **{f"stablehlo.{name}": frozenset(("result_accuracy",)) for name in _ELEMENTWISE},
    **{f"chlo.{name}": frozenset() for name in _CHLO},
    **{f"stablehlo.{name}": frozenset(names) for name, names in _WITH_ATTRIBUTES.items()},
}

# Attributes of a module, with their values in programs for one device.
MODULE_ATTRIBUTES = {"mhlo.num_partitions": 1, "mhlo.num_replicas": 1}

# Attributes that XLA ignores.
HARMLESS = ("jax.",)

ELEMENTS = frozenset(
    (
        *("i1", "i4", "i8", "i16", "i32", "i64", "ui4", "ui8", "ui16", "ui32", "ui64"),
        *("bf16", "f16", "f32", "f64", "complex<f32>", "complex<f64>"),
        *("f8E3M4", "f8E4M3", "f8E4M3B11FNUZ", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ"),
        "f8E8M0FNU",
    )
)
