"""What a foreign module may have PyTorch do, by the dispatcher's names: all else is taken away from it.

A list of what is allowed cannot be got round by another operator that computes the same (a convolution as product,
group norm as layer norm, pooling as maximum). What is here moves data, allocates, or is elementary.
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
_ELEMENTARY = """
    abs absolute sign sgn signbit exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal float_power
    sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh arctan arctan2 erf erfc ceil floor round trunc
    frac fix clamp clamp_min clamp_max clip maximum minimum fmax fmin fmod sigmoid relu logical_and logical_or
    logical_not logical_xor isnan isinf isfinite isclose equal nan_to_num lerp addcmul addcdiv hypot copysign
    sum mean amax amin max min prod any all argmax argmin var std var_mean std_mean
"""
_ALWAYS = frozenset(map(plain, words_of(_MOVES + _SIGNS)))
_UNLESS_THE_TASKS = frozenset(map(plain, words_of(_ELEMENTARY)))


def kept_operators(operators: frozenset[str]) -> frozenset[str]:
    """Plain names of the operators that a module may reach, where its task computes with `operators`."""
    return _ALWAYS | (_UNLESS_THE_TASKS - operators)
