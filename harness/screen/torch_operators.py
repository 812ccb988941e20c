"""What a foreign module may have PyTorch do, by the dispatcher's names: all else is taken away from it.

A list of what is allowed cannot be got round by another operator that computes the same (a convolution as product,
group norm as layer norm, pooling as maximum). What is here moves data, allocates, or is elementary. Convolutions,
products, norms, attention, pooling, recurrent layers and sorts are in no task's list.
"""

from __future__ import annotations

from harness.screen.operators import plain
from harness.screen.rules import words_of

_MOVES = """
    view view_as view_as_real view_as_complex reshape _reshape_alias transpose permute t numpy_T mT mH matrix_H adjoint
    contiguous expand expand_as unsqueeze squeeze flatten unflatten ravel movedim moveaxis swapaxes swapdims unfold
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like
    new_ones full full_like new_full scalar_tensor arange linspace eye _efficientzerotensor
    to _to_copy type_as clone detach lift lift_fresh alias as_strided copy fill zero set_data data _unsafe_view
    size stride numel dim sym_size sym_stride sym_numel sym_storage_offset item _local_scalar_dense is_nonzero
    slice select narrow cat concat concatenate stack hstack vstack dstack column_stack chunk split split_with_sizes
    tensor_split unsafe_chunk unsafe_split unsafe_split_with_sizes unbind diagonal diag diag_embed tril triu
    tril_indices triu_indices flip fliplr flipud roll rot90 repeat repeat_interleave tile broadcast_tensors broadcast_to
    meshgrid pad constant_pad_nd where nonzero index index_put _index_put_impl index_select index_copy index_fill gather
    scatter take take_along_dim masked_fill masked_scatter masked_select is_floating_point is_complex is_signed is_leaf
    is_same_size is_inference is_neg is_conj is_pinned requires_grad retain_grad retains_grad output_nr _version
    result_type promote_types can_cast real imag conj _conj _conj_physical conj_physical resolve_conj resolve_neg
    _neg_view _has_compatible_shallow_copy_type resize resize_as dropout feature_dropout alpha_dropout
"""
_SIGNS = """
    add sub subtract rsub mul multiply div divide true_divide neg negative pow remainder floor_divide eq ne lt le gt ge
    __and__ __or__ __xor__ __lshift__ __rshift__ bitwise_and bitwise_or bitwise_xor bitwise_not
    bitwise_left_shift bitwise_right_shift
"""
_POINTWISE = """
    abs absolute sign sgn signbit exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal float_power
    sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh arctan arctan2 erf erfc ceil floor round trunc
    frac fix clamp clamp_min clamp_max clip maximum minimum fmax fmin fmod sigmoid relu logical_and logical_or
    logical_not logical_xor isnan isinf isfinite isclose equal nan_to_num lerp addcmul addcdiv hypot copysign
"""
_REDUCTIONS = "sum mean amax amin max min prod any all argmax argmin var std var_mean std_mean"
_ACTIVATIONS = """
    gelu silu leaky_relu elu celu selu mish softplus hardswish hardsigmoid hardtanh relu6 prelu _prelu_kernel glu
    log_sigmoid log_sigmoid_forward hardshrink softshrink threshold heaviside logit xlogy
"""
_ALONG_ROWS = """
    cumsum cumprod cummax cummin _cummax_helper _cummin_helper logcumsumexp topk softmax _softmax log_softmax
    _log_softmax logsumexp mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss hinge_embedding_loss
    margin_ranking_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div poisson_nll_loss nll_loss
    nll_loss_nd nll_loss_forward nll_loss2d nll_loss2d_forward cross_entropy_loss
"""
# What a task's own text or trace calls them besides.
_ALSO_CALLED = """
    leakyrelu logsigmoid logsigmoid softsign tanhshrink rrelu swish softmin normalize crossentropy crossentropyloss
    bceloss bcewithlogitsloss kldivloss mseloss l1loss nllloss nansum nanmean aminmax norm vectornorm linalgvectornorm
"""


def _plain(names: str) -> frozenset[str]:
    return frozenset(map(plain, words_of(names)))


_ALWAYS = _plain(_MOVES + _SIGNS)
_UNLESS_THE_TASKS = _plain(_POINTWISE + _REDUCTIONS)
_CURVED = _plain(_POINTWISE + _ACTIVATIONS + _ALONG_ROWS + _ALSO_CALLED)
_FOLDED = _CURVED | _plain(_REDUCTIONS)
MAY_BE_KEPT = _ALWAYS | _UNLESS_THE_TASKS | _FOLDED - _plain(_ALSO_CALLED)
"""Plain names of all operators that a module may reach in one task or another."""


def kept_operators(operators: frozenset[str]) -> frozenset[str]:
    """Plain names of the operators that a module may reach, where its task computes with `operators`.

    An activation is another one with other arguments (leaky_relu of slope 0 is relu), or times something elementary
    (silu over x is sigmoid); losses hold both, and reductions. So activations are kept where the task has no curve at
    all, and what folds rows where it has no reduction either.
    """
    kept = _ALWAYS | (_UNLESS_THE_TASKS - operators)
    if not operators & _CURVED:
        kept |= _plain(_ACTIVATIONS)
    if not operators & _FOLDED:
        kept |= _plain(_ALONG_ROWS)
    return kept
