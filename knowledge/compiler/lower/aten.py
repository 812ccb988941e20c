"""The class of every ATen operation that the compiler lowers or a model's partition asks about: one table."""

from __future__ import annotations

CLASSES: dict[str, frozenset[str]] = {
    # The whole operand at another shape or stride, without a copy.
    "view": frozenset({
        "view", "reshape", "_unsafe_view", "permute", "transpose", "t", "numpy_T", "mT", "expand", "expand_as",
        "unsqueeze", "squeeze", "detach", "alias", "unflatten", "flatten", "broadcast_to", "view_as",
    }),
    # A part of the operand, or several, without a copy.
    "part": frozenset({"slice", "select", "split", "split_with_sizes", "chunk", "unbind", "narrow"}),
    # May share the operand's memory, but copies in some cases, or is a view that not every recipe takes.
    "aliasing": frozenset({
        "contiguous", "to", "swapaxes", "adjoint", "reshape_as", "tensor_split", "broadcast_tensors", "unfold",
        "dropout", "type_as", "positive", "diagonal",
    }),
    "constant": frozenset({"lift_fresh_copy"}),
    "pointwise": frozenset({
        "__and__", "__or__", "__xor__", "_to_copy", "abs", "absolute", "acos", "acosh", "add", "addcdiv", "addcmul",
        "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan", "atan2",
        "atanh", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "bucketize", "ceil", "celu", "clamp",
        "clamp_max", "clamp_min", "clip", "clone", "copy", "cos", "cosh", "div", "divide", "elu", "eq", "erf", "erfc",
        "exp", "exp2", "expm1", "fix", "floor", "floor_divide", "fmax", "fmin", "fmod", "frac", "ge", "gelu", "glu",
        "greater", "greater_equal", "gt", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hypot", "isfinite",
        "isinf", "isnan", "le", "leaky_relu", "lerp", "less", "less_equal", "log", "log10", "log1p", "log2",
        "log_sigmoid", "log_sigmoid_forward", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
        "logit", "lt", "masked_fill", "maximum", "minimum", "mish", "mul", "multiply", "nan_to_num", "native_dropout",
        "ne", "neg", "negative", "not_equal", "pow", "prelu", "reciprocal", "relu", "relu6", "remainder", "round",
        "rsqrt", "rsub", "searchsorted", "selu", "sgn", "sigmoid", "sign", "silu", "sin", "sinh", "softplus",
        "softshrink", "special_erf", "special_erfc", "special_exp2", "special_expm1", "special_log1p", "sqrt", "square",
        "sub", "subtract", "tan", "tanh", "threshold", "tril", "triu", "true_divide", "trunc", "where", "xlogy",
    }),
    "loss": frozenset({
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy_loss",
        "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "nll_loss",
        "nll_loss2d", "nll_loss2d_forward", "nll_loss_forward", "nll_loss_nd", "poisson_nll_loss", "smooth_l1_loss",
        "soft_margin_loss", "triplet_margin_loss",
    }),
    "reduction": frozenset({
        "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_log_softmax", "_safe_softmax", "_softmax",
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
        "adaptive_max_pool2d", "adaptive_max_pool3d", "all", "amax", "amin", "aminmax", "any", "argmax", "argmin",
        "avg_pool1d", "avg_pool2d", "avg_pool3d", "cdist", "cosine_similarity", "count_nonzero", "cumprod", "cumsum",
        "frobenius_norm", "linalg_matrix_norm", "linalg_norm", "linalg_vector_norm", "log_softmax", "logsumexp", "max",
        "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
        "max_pool3d_with_indices", "mean", "min", "norm", "pairwise_distance", "prod", "softmax", "std", "std_mean",
        "sum", "var", "var_mean",
    }),
    "norm": frozenset({
        "_fused_rms_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "batch_norm",
        "group_norm", "instance_norm", "layer_norm", "native_batch_norm", "native_group_norm", "native_layer_norm",
        "rms_norm",
    }),
    "product": frozenset({
        "addmm", "addmv", "baddbmm", "bilinear", "bmm", "dot", "einsum", "ger", "linear", "matmul", "mm", "mv", "outer",
    }),
    "convolution": frozenset({
        "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
    }),
    "attention": frozenset({"scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"}),
    "recurrence": frozenset({
        "gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell",
    }),
    # Reads a neighbourhood of each result's place, or interpolates in it.
    "window": frozenset({
        "affine_grid_generator", "grid_sampler", "grid_sampler_2d", "im2col", "upsample_bilinear2d",
        "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_trilinear3d",
    }),
    "sort": frozenset({"argsort", "kthvalue", "median", "msort", "nanmedian", "sort", "topk"}),
    # Reads or writes where a tensor of indices says.
    "index": frozenset({
        "embedding", "gather", "index", "index_add", "index_put", "index_select", "scatter", "scatter_add",
    }),
    # Puts elements elsewhere; where, the shapes and numbers of the call say.
    "move": frozenset({
        "cat", "concat", "constant_pad_nd", "diag", "diag_embed", "flip", "pad", "pixel_shuffle", "reflection_pad1d",
        "reflection_pad2d", "reflection_pad3d", "repeat", "repeat_interleave", "replication_pad1d", "replication_pad2d",
        "replication_pad3d", "roll", "select_scatter", "slice_scatter", "stack", "tile",
    }),
    "fill": frozenset({
        "arange", "empty", "empty_like", "eye", "fill", "full", "full_like", "new_empty", "new_ones", "new_zeros",
        "one_hot", "ones", "ones_like", "scalar_tensor", "zeros", "zeros_like",
    }),
    "gradient": frozenset({
        "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", "avg_pool2d_backward", "avg_pool3d_backward",
        "convolution_backward", "embedding_dense_backward", "max_pool2d_with_indices_backward",
        "max_pool3d_with_indices_backward", "nll_loss2d_backward", "nll_loss_backward", "upsample_nearest1d_backward",
        "upsample_nearest2d_backward", "upsample_nearest3d_backward",
    }),
}  # fmt: skip

FREE = CLASSES["view"] | CLASSES["part"] | CLASSES["constant"]
"""Operations that only look at memory another way: they take no time on the device."""
ALIASING = CLASSES["view"] | CLASSES["part"] | CLASSES["aliasing"]
"""Results that may share storage with their operand: an in-place operation on one changes the others."""
