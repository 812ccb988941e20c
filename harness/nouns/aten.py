"""The table of ATen's operations: what kind of work each is, by its name without namespace and overload.

Other lists of operations are made of these kinds. What is not in `LOWERED` has no lowering of its own: a trace has
the operations that PyTorch writes it as, where it can. Nothing is imported here, so that the judge, the models' planner
and the compiler read the same table.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "reshape", "permute", "expand", "part", "alias", "copy", "cast", "create", "rearrange", "gather", "scatter",
    "pointwise", "reduction", "norm", "loss", "scan", "window", "resample", "sort", "product", "convolution",
    "attention", "recurrence", "gradient",
]  # fmt: skip

_LOWERED: dict[Kind, str] = {
    # All elements, in the same order.
    "reshape": "view reshape _unsafe_view flatten unflatten unsqueeze squeeze view_as reshape_as",
    "permute": "permute transpose swapaxes t numpy_T mT adjoint",
    "expand": "expand expand_as broadcast_to broadcast_tensors",
    # Some elements of the operand, at their place in its memory.
    "part": "as_strided chunk split split_with_sizes tensor_split slice narrow select unbind diagonal unfold",
    "alias": "detach alias positive lift_fresh_copy",
    "copy": "clone contiguous copy as_strided_copy narrow_copy permute_copy unbind_copy view_copy",
    "cast": "to _to_copy type_as",
    "create": """
        tril_indices triu_indices linspace
        zeros_like zeros new_zeros empty_like empty new_empty ones_like ones new_ones full_like full scalar_tensor
        arange eye""",
    # Elements go to other places, which the shapes alone decide.
    "rearrange": """
        repeat_interleave pixel_shuffle flip repeat tile cat concat stack constant_pad_nd pad reflection_pad1d
        reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d roll tril triu diag
        diag_embed im2col""",
    # Elements that the values of another operand choose.
    "gather": "gather take index_select embedding index embedding_bag _embedding_bag _embedding_bag_forward_only",
    "scatter": """
        index_add index_copy index_fill index_put _unsafe_index_put index_reduce put scatter scatter_add
        scatter_reduce slice_scatter select_scatter diagonal_scatter as_strided_scatter""",
    "pointwise": """
        exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal pow sin cos tan asin acos atan sinh cosh tanh
        asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh atan2 arctan2 erf erfc special_erf special_erfc
        special_exp2 special_expm1 special_log1p hypot abs absolute neg negative sign sgn floor ceil trunc fix round
        frac add sub rsub mul div subtract multiply divide true_divide floor_divide remainder fmod addcmul addcdiv lerp
        maximum minimum fmax fmin clamp clamp_min clamp_max clip le ne lt gt eq ge less less_equal greater
        greater_equal not_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor
        bitwise_not __and__ __or__ __xor__ isinf isfinite isnan nan_to_num where masked_fill fill one_hot bucketize
        searchsorted dropout native_dropout relu relu6 hardtanh leaky_relu prelu elu selu celu gelu silu sigmoid mish
        softplus masked_scatter lgamma digamma polygamma erfinv special_gammaln special_digamma special_psi
        special_erfinv special_polygamma copysign nextafter signbit gcd lcm bitwise_left_shift bitwise_right_shift
        __lshift__
        __rshift__ log_sigmoid log_sigmoid_forward hardsigmoid hardswish threshold hardshrink softshrink logit xlogy
        logaddexp glu""",
    "reduction": """
        sum prod amax amin any all mean max min aminmax argmax argmin var std var_mean std_mean softmax _softmax
        _safe_softmax log_softmax _log_softmax logsumexp linalg_vector_norm norm linalg_norm linalg_matrix_norm
        frobenius_norm count_nonzero cosine_similarity pairwise_distance isin""",
    "norm": """
        layer_norm native_layer_norm rms_norm instance_norm group_norm native_group_norm batch_norm native_batch_norm
        _native_batch_norm_legit_no_training""",
    "loss": """
        mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits
        soft_margin_loss hinge_embedding_loss margin_ranking_loss poisson_nll_loss nll_loss nll_loss_nd nll_loss2d
        nll_loss_forward nll_loss2d_forward cross_entropy_loss triplet_margin_loss cosine_embedding_loss""",
    "scan": "cumsum cumprod cummax cummin logcumsumexp",
    "window": """
        max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices
        avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
        _adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d""",
    "resample": """
        upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
        upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa
        grid_sampler grid_sampler_2d grid_sampler_3d affine_grid_generator""",
    "sort": "sort argsort topk kthvalue median nanmedian msort",
    "product": "mm bmm matmul mv dot addmm addmv baddbmm linear einsum outer ger cdist _pdist_forward addbmm bilinear",
    "convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution",
    "attention": "scaled_dot_product_attention",
    "recurrence": "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    "gradient": """
        max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward
        _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward upsample_nearest1d_backward
        upsample_nearest2d_backward upsample_nearest3d_backward convolution_backward nll_loss_backward
        nll_loss2d_backward embedding_dense_backward""",
}

LOWERED: dict[str, Kind] = {name: kind for kind, names in _LOWERED.items() for name in names.split()}
"""Operations that the compiler has a lowering for: a trace keeps them whole."""

_NOT_LOWERED: dict[Kind, str] = {
    "norm": "_fused_rms_norm _native_batch_norm_legit",
    "window": "_adaptive_avg_pool3d",
    "product": "inner tensordot",
    "attention": "_scaled_dot_product_flash_attention_for_cpu",
    "recurrence": "mkldnn_rnn_layer",
}
"""Operations that reach the judge or a whole model's plan all the same."""

KINDS: dict[str, Kind] = {name: kind for kind, names in _NOT_LOWERED.items() for name in names.split()} | LOWERED


def of_kinds(*kinds: Kind) -> frozenset[str]:
    """The operations of some kinds."""
    return frozenset(name for name, kind in KINDS.items() if kind in kinds)


ALONG_AN_AXIS = frozenset((
    "gather", "index_select", "index_add", "index_copy", "index_fill", "index_reduce", "scatter", "scatter_add",
    "scatter_reduce",
))  # fmt: skip
"""Operations whose `index` names places along the axis `dim` of the first operand."""
FREE = of_kinds("reshape", "permute", "expand", "part", "alias")
"""Operations that only look at memory another way: they take no time on the device."""
ALIASING = FREE - {"lift_fresh_copy"} | {"contiguous", "to", "type_as", "dropout"}
"""Results that may share storage with their operand: an in-place operation on one changes the others."""
