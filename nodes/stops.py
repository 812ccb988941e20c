"""Every condition that ends a run, as pure functions of state and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from nodes.history import steps_without_gain
from nodes.protocols import Account
from nodes.settings import Settings
from nodes.state import Best, RunState, Stop, money, require

Run = TypeVar("Run", bound=Account)
Condition = Callable[[Run, Settings], Iterator[Stop]]


def out_of_repairs(state: RunState, settings: Settings) -> bool:
    """Whether the failing kernel at hand is not repaired any further."""
    return state.gave_up or state.repairs >= settings.max_repairs


def may_mend(state: RunState, settings: Settings) -> bool:
    """Whether a final kernel that a sanitizer found fault with is repaired before another one takes its place."""
    repairs = state.repairs if state.final_repair else 0
    return repairs < settings.max_repairs and over_budget(state, settings) is None


def broke_off(state: RunState, settings: Settings) -> bool:
    """Whether the repair of a final kernel ends here without one: given up, used up, or no budget left for it."""
    return out_of_repairs(state, settings) or over_budget(state, settings) is not None


def after_test(state: RunState, settings: Settings) -> Stop | None:
    """The reason to end after a test, the happiest first. What ended a run stays the reason while it is mended."""
    if state.final_repair:
        return state.stop_reason
    return _first((_target_speedup, _depth, _patience, _repairs, *BUDGETS), state, settings)


def after_giving_up(state: RunState, settings: Settings) -> Stop | None:
    """The reason to end after a repair that the repairer declined."""
    if state.final_repair:
        return state.stop_reason
    return _first((_patience, _repairs), state, settings)


def after_profile(state: RunState, settings: Settings) -> Stop | None:
    """The reason to end after profiling: what the roof leaves, or a budget that the profiling used up."""
    return _first((_roof_share, *BUDGETS), state, settings)


def over_budget(state: Account, settings: Settings) -> Stop | None:
    """The first budget that is used up, asked before each step of a turn and before a final kernel is repaired."""
    return _first(BUDGETS, state, settings)


def out_of_time(state: Account, settings: Settings) -> Stop | None:
    """Whether the run, or its kernels, have had their time: asked before work that no other budget counts."""
    return _first((_wall_time, _device_time), state, settings)


def left_s(state: Account, settings: Settings) -> float:
    """Seconds that the run, and its kernels, may still take: the smaller of the two."""
    used = state.device_seconds + state.usage.device_seconds
    return min(settings.max_wall_s - state.seconds, settings.max_device_s - used)


def _first(conditions: Sequence[Condition[Run]], state: Run, settings: Settings) -> Stop | None:
    return next((stop for condition in conditions for stop in condition(state, settings)), None)


def _passed(state: RunState) -> bool:
    return require(state.verdict, "verdict").passed


def _target_speedup(state: RunState, settings: Settings) -> Iterator[Stop]:
    return target_met(state.best, settings)


def target_met(best: Best | None, settings: Settings) -> Iterator[Stop]:
    """The end where the best kernel is as fast as was asked for."""
    timing = best.verdict.timing if best else None
    target = settings.target_speedup
    if timing is not None and target is not None and timing.speedup_interval.low >= target:
        yield Stop(name="target_speedup", message=f"The target of {target:g}x is met: {timing.speedup:.2f}x.")


def _roof_share(state: RunState, settings: Settings) -> Iterator[Stop]:
    profile = state.best.profile if state.best else None
    share, reached = settings.roof_share, profile.share_of_roof if profile else None
    if profile is not None and share is not None and reached is not None and reached >= share:
        yield Stop(
            name="roof_share",
            message=f"The best kernel reaches {reached:.0%} of what the machine can do "
            f"({profile.bound}); {share:.0%} were asked for.",
        )


def _depth(state: RunState, settings: Settings) -> Iterator[Stop]:
    # Without a best kernel the one that passed was turned down.
    if _passed(state) and state.best and state.depth >= settings.max_depth:
        yield Stop(name="depth", message=f"Depth {state.depth} is reached, as the settings asked.")


def _patience(state: RunState, settings: Settings) -> Iterator[Stop]:
    settled = _passed(state) or out_of_repairs(state, settings)
    if settings.patience is not None and settled and steps_without_gain(state.history) >= settings.patience:
        yield Stop(name="patience", message=f"{settings.patience} optimizations in a row brought no gain.")


def _repairs(state: RunState, settings: Settings) -> Iterator[Stop]:
    if state.best is not None or not out_of_repairs(state, settings):
        return
    if state.regenerations >= settings.max_regenerations:
        yield Stop(
            name="repairs_exhausted",
            message=f"No kernel passed: {state.regenerations + 1} were written, and no repair saved one.",
        )


def _attempts(state: Account, settings: Settings) -> Iterator[Stop]:
    if state.attempts >= settings.max_attempts:
        yield Stop(name="attempts", message=f"{state.attempts} kernels were tested, all that the settings allow.")


def _wall_time(state: Account, settings: Settings) -> Iterator[Stop]:
    if state.seconds >= settings.max_wall_s:
        yield Stop(
            name="wall_time", message=f"The run took {state.seconds:.0f} s; {settings.max_wall_s:g} s were allowed."
        )


def _device_time(state: Account, settings: Settings) -> Iterator[Stop]:
    used, limit = state.device_seconds + state.usage.device_seconds, settings.max_device_s
    if used >= limit:
        yield Stop(name="device_time", message=f"Kernels ran for {used:.0f} s; {limit:g} s were allowed.")


def _tokens(state: Account, settings: Settings) -> Iterator[Stop]:
    used, limit = state.usage.tokens, settings.max_tokens
    if used >= limit:
        yield Stop(name="tokens", message=f"The models used {used} tokens; {limit} were allowed.")


def _dollars(state: Account, settings: Settings) -> Iterator[Stop]:
    used, limit = state.usage.dollars, settings.max_dollars
    if used >= limit:
        yield Stop(name="dollars", message=f"The models cost {money(used)}; {money(limit)} were allowed.")


def _calls(state: Account, settings: Settings) -> Iterator[Stop]:
    if state.usage.calls >= settings.max_calls:
        yield Stop(name="calls", message=f"The models were asked {state.usage.calls} times, all that was allowed.")


def _builds(state: Account, settings: Settings) -> Iterator[Stop]:
    built = state.attempts + state.usage.builds
    if built >= settings.max_builds:
        yield Stop(name="builds", message=f"{built} kernels were compiled; {settings.max_builds} were allowed.")


BUDGETS: tuple[Condition[Account], ...] = (_attempts, _wall_time, _device_time, _tokens, _dollars, _calls, _builds)
