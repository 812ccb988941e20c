"""The operators that a task is about, by all the names under which PyTorch offers them."""

from __future__ import annotations

import ast
from functools import lru_cache

from harness.nouns.task import Task
from harness.screen.rules import words_of

# What moves, makes or describes tensors computes nothing; arithmetic is as free as its signs are.
_MOVES = words_of("""
    view reshape transpose permute t mt contiguous expand expandas unsqueeze squeeze flatten unflatten empty emptylike
    zeros zeroslike ones oneslike full fulllike to clone detach size shape slice select narrow cat stack chunk split
    unbind arange copy fill alias module parameter tensor float double int long item numel dim stride device dtype
    init super forward register registerbuffer buffer data nn functional f torch rand randn list range len sequential
    add sub mul div neg rsub subtract multiply divide
    modulelist getitem lift liftfresh detachcopy viewas scalartensor emptystrided newempty newzeros asstrided
    """)
_SYNONYMS = (
    # What computes with products inside stands in for one.
    "matmul mm bmm mv dot einsum addmm addmv baddbmm addbmm linear tensordot inner vdot vecdot multidot chainmatmul "
    "outer ger unsafematmul bilinear cdist kron cov corrcoef matrixpower scaleddotproductattention multiheadattention "
    "multiheadattentionforward lstm gru rnn lstmcell grucell rnncell conv1d conv2d conv3d convolution",
    "softmax softmin safesoftmax sparsesoftmax gumbelsoftmax logsoftmax safelogsoftmax logsumexp crossentropy "
    "crossentropyloss",
    "relu threshold clamp clip clampmin relu6 hardtanh",
    "sigmoid logsigmoid expit",
    "silu swish",
    "gelu",
    "sum nansum cumsum mean nanmean",
    "prod cumprod",
    "norm vectornorm matrixnorm linalgvectornorm frobeniusnorm normalize renorm",
    "max amax aminmax argmax cummax topk sort msort argsort kthvalue",
    "min amin aminmax argmin cummin topk sort msort argsort kthvalue",
    "var std varmean stdmean",
    "layernorm nativelayernorm",
    "rmsnorm fusedrmsnorm",
    "batchnorm batchnorm1d batchnorm2d batchnorm3d nativebatchnorm",
    "groupnorm nativegroupnorm",
    "instancenorm instancenorm1d instancenorm2d instancenorm3d",
    "conv1d conv2d conv3d convolution convtranspose1d convtranspose2d convtranspose3d",
    "scaleddotproductattention multiheadattention",
)
_GROUPS = tuple(frozenset(group.split()) for group in _SYNONYMS)


def plain(name: str) -> str:
    """A name without case and underscores: `LogSoftmax`, `log_softmax_` and `_log_softmax` are one."""
    return name.lower().replace("_", "")


def operators_of(task: Task) -> frozenset[str]:
    """Plain names of what the reference computes with, from its trace and from its own text, synonyms included."""
    traced = (op.target.split(".")[1] for op in task.program.ops if op.target.count(".")) if task.program else ()
    found = {plain(name) for name in traced} | _written(task.source)
    found -= _MOVES
    return frozenset(found.union(*(group for group in _GROUPS if group & found)))


@lru_cache(maxsize=64)
def _written(source: str) -> frozenset[str]:
    """Names of attributes and constructors in the reference's classes."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    inside = [node for each in classes for node in ast.walk(each)]
    products = {"matmul"} if any(isinstance(node, ast.MatMult) for node in inside) else set()
    called = (node.func.attr for node in inside if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    return frozenset({plain(name) for name in called} | products)


# -- What a foreign module may have PyTorch do, by the dispatcher's names: all else is taken away from it -------------

# A list of what is allowed cannot be got round by another operator that computes the same (a convolution as product,
# group norm as layer norm, pooling as maximum). What is here moves data, allocates, or is elementary. Convolutions,
# products, norms, attention, pooling, recurrent layers and sorts are in no task's list.


_TORCH_MOVES = """
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


_ALWAYS = _plain(_TORCH_MOVES + _SIGNS)
_UNLESS_THE_TASKS = _plain(_POINTWISE + _REDUCTIONS)
MADE_ANEW = _UNLESS_THE_TASKS - {"relu"} | _plain(_SIGNS) | _plain("linear matmul mm bmm mv dot addmm")
"""Plain names of functions whose results are memory of their own, whatever they are given (not `out`)."""
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
