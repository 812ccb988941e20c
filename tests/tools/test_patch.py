"""Line edits land together or not at all, and a refusal tells a model how to mend them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tools.patch import Patch, PatchError, numbered

SOURCE = "one\ntwo\nthree\nfour\nfive\n"


def patch(*edits: dict[str, object]) -> Patch:
    return Patch.model_validate({"edits": edits})


def replace(line: int, expected: str, text: str, end_line: int | None = None) -> dict[str, object]:
    return {"kind": "replace", "line": line, "end_line": end_line, "expected": expected, "text": text}


def insert(line: int, expected: str, text: str) -> dict[str, object]:
    return {"kind": "insert", "line": line, "expected": expected, "text": text}


def delete(line: int, expected: str, end_line: int | None = None) -> dict[str, object]:
    return {"kind": "delete", "line": line, "end_line": end_line, "expected": expected}


def test_edits_of_every_kind_use_the_line_numbers_of_the_source_as_it_was() -> None:
    edits = patch(
        replace(4, "four", "4\n4b"),
        insert(0, "", "zero"),
        delete(2, "two\nthree", end_line=3),
        insert(5, "five", "six"),
        insert(4, "four", "between"),
    )
    assert edits.apply(SOURCE) == "zero\none\n4\n4b\nbetween\nfive\nsix\n"


def test_a_line_may_be_blanked_and_one_be_inserted_below_the_first() -> None:
    assert patch(replace(2, "two", "", end_line=2)).apply("one\ntwo\n") == "one\n\n"
    assert patch(insert(1, "one", "")).apply("one\ntwo\n") == "one\n\ntwo\n"
    assert patch(delete(1, "one", end_line=1)).apply("one\ntwo\n") == "two\n"
    with pytest.raises(PatchError, match="insertion below line 1 expects other text"):
        patch(insert(1, "two", "x")).apply("one\ntwo\ntwo\n")


def test_white_space_at_the_ends_of_lines_is_not_compared() -> None:
    assert patch(replace(2, "two  ", "2")).apply("one\r\ntwo\r\n") == "one\r\n2\n"


def test_expected_lines_may_be_parted_by_newlines_or_each_end_in_one() -> None:
    """Where the last of the lines is empty the two readings differ, and a model may mean either."""
    source = "one\n\n\nfour\n"
    for expected in ("one\n", "one\n\n"):
        assert patch(delete(1, expected, end_line=2)).apply(source) == "\nfour\n"
    for expected in ("\n", "\n\n"):
        assert patch(replace(2, expected, "two\nthree", end_line=3)).apply(source) == "one\ntwo\nthree\nfour\n"
    for expected in ("one", "one\n\n\n", "\none"):
        with pytest.raises(PatchError, match="expects other text"):
            patch(delete(1, expected, end_line=2)).apply(source)
    with pytest.raises(PatchError, match="expects other text"):
        patch(delete(2, "\n\n\n\n", end_line=3)).apply(source)


def test_a_final_line_without_newline_stays_without() -> None:
    assert patch(replace(2, "b", "B")).apply("a\nb") == "a\nB"
    assert patch(insert(2, "b", "c")).apply("a\nb") == "a\nb\nc"


def test_only_a_newline_ends_a_line_as_for_a_compiler() -> None:
    source = "auto s = 'a\x0cb\u2028c';\nsecond\n"
    assert patch(replace(2, "second", "2nd")).apply(source) == "auto s = 'a\x0cb\u2028c';\n2nd\n"


def test_deleting_everything_leaves_an_empty_source() -> None:
    assert patch(delete(1, "a\nb", end_line=2)).apply("a\nb\n") == ""


def test_inserting_into_an_empty_source() -> None:
    assert patch(insert(0, "", "first")).apply("") == "first"


def test_a_stale_edit_is_refused_and_shows_the_lines_and_where_the_text_went() -> None:
    with pytest.raises(PatchError) as refused:
        patch(replace(2, "four", "4"), replace(1, "one", "1")).apply(SOURCE + "four\n")
    message = str(refused.value)
    assert "No edit was applied" in message
    assert "replacement of line 2" in message
    assert "That text starts at line 4, 6" in message
    assert "2| two" in message


NINE = "".join(f"line {number}\n" for number in range(1, 10))


def now(first: int, last: int) -> str:
    return "The lines are now:" + "".join(f"\n{number}| line {number}" for number in range(first, last + 1))


def now_named(first: int, last: int) -> str:
    return now(first, last).replace("The lines are", "The lines you named are")


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (
            replace(5, "line 9", "x", end_line=6),
            "replacement of lines 5-6{}That text starts at line 9. " + now_named(2, 9),
        ),
        (replace(5, "line 1\nline 2", "x"), "replacement of line 5{}That text starts at line 1. " + now_named(2, 8)),
        (delete(1, "gone"), "deletion of line 1{}" + now(1, 4)),
        (delete(8, "gone", end_line=9), "deletion of lines 8-9{}" + now(5, 9)),
        (insert(0, "gone", "x"), "insertion below line 0{}" + now(1, 3)),
        (insert(9, "gone", "x"), "insertion below line 9{}" + now(6, 9)),
        (replace(4, "", "x"), "replacement of line 4{}" + now(1, 7)),
    ],
)
def test_a_refusal_names_the_edit_and_shows_three_lines_around_it(edit: dict[str, object], problem: str) -> None:
    with pytest.raises(PatchError) as refused:
        patch(edit).apply(NINE)
    told = problem.format(" expects other text than stands there. ")
    assert str(refused.value) == f"No edit was applied.\n- The {told}"


def test_text_that_stands_in_many_places_is_pointed_at_five_times() -> None:
    with pytest.raises(PatchError, match=r"That text starts at line 1, 2, 3, 4, 5\. The lines"):
        patch(delete(8, "same")).apply("same\n" * 7 + "other\n")


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        (replace(2, "four", "4"), "one\ntwo\nthree\n4\nfive\n"),
        (replace(9, "four\nfive", "4", end_line=10), "one\ntwo\nthree\n4\n"),
        (delete(1, "two\nthree", end_line=2), "one\nfour\nfive\n"),
        (insert(0, "two", "2b"), "one\ntwo\n2b\nthree\nfour\nfive\n"),
        (insert(7, "two", "2b"), "one\ntwo\n2b\nthree\nfour\nfive\n"),
    ],
)
def test_text_that_stands_in_one_place_is_edited_there(edit: dict[str, object], after: str) -> None:
    assert patch(edit).apply(SOURCE) == after
    with pytest.raises(PatchError, match="That text starts at line"):
        patch(edit).apply("x\n" * 12 + SOURCE + SOURCE)


def test_stale_text_that_stands_nowhere_shows_the_lines_only() -> None:
    with pytest.raises(PatchError, match="The lines are now:") as refused:
        patch(delete(5, "fife")).apply(SOURCE)
    assert "5| five" in str(refused.value)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(PatchError) as refused:
        patch(replace(1, "x", "1"), replace(9, "nine", "9"), delete(2, "y")).apply(SOURCE)
    assert str(refused.value).count("- The ") == 3
    assert "has 5 lines" in str(refused.value)


@pytest.mark.parametrize(
    "edits",
    [
        (replace(1, "one\ntwo", "x", end_line=2), delete(2, "two")),
        (replace(1, "one\ntwo\nthree", "x", end_line=3), insert(2, "two", "y")),
        (insert(2, "two", "x"), insert(2, "two", "y")),
        (delete(3, "three"), delete(3, "three")),
    ],
)
def test_overlapping_edits_are_refused(edits: tuple[dict[str, object], ...]) -> None:
    with pytest.raises(PatchError, match="join them into one"):
        patch(*edits).apply(SOURCE)


def test_a_patch_that_changes_nothing_is_refused() -> None:
    with pytest.raises(PatchError, match="exactly as it is"):
        patch(replace(1, "one", "one")).apply(SOURCE)


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [replace(0, "", "x")],
        [replace(1, "one", "x", end_line=0)],
        [insert(-1, "", "x")],
        [replace(3, "three", "x", end_line=2)],
        [{"kind": "move", "line": 1, "expected": "one"}],
        [{"kind": "delete", "line": 1, "expected": "one", "text": "x"}],
    ],
)
def test_edits_that_mean_nothing_do_not_fit_the_schema(edits: list[dict[str, object]]) -> None:
    with pytest.raises(ValidationError):
        Patch.model_validate({"edits": edits})


def test_numbered_lines_are_those_that_edits_name() -> None:
    assert numbered("a\nb\n") == "1| a\n2| b"


lines = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=6), min_size=1, max_size=12)


@given(before=lines, after=lines, data=st.data())
def test_replacing_any_range_gives_exactly_the_new_lines_there(
    before: list[str], after: list[str], data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, len(before)))
    last = data.draw(st.integers(first, len(before)))
    source = "\n".join([*before, ""])
    end = data.draw(st.sampled_from(["", "\n"]))
    expected, text = "\n".join(before[first - 1 : last]) + end, "\n".join([*after, ""])
    wanted = "\n".join([*before[: first - 1], *after, *before[last:], ""])
    edits = patch(replace(first, expected, text, end_line=last))
    if wanted == source:
        with pytest.raises(PatchError):
            edits.apply(source)
    else:
        assert edits.apply(source) == wanted


@given(source=lines, data=st.data())
def test_disjoint_edits_commute(source: list[str], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(1, len(source)), unique=True, min_size=1, max_size=4))
    edits = [replace(number, source[number - 1], f"new {number}") for number in numbers]
    text = "\n".join([*source, ""])
    shuffled = data.draw(st.permutations(edits))
    assert patch(*edits).apply(text) == patch(*shuffled).apply(text)
    wanted = [f"new {number}" if number in numbers else line for number, line in enumerate(source, start=1)]
    assert patch(*edits).apply(text) == "\n".join([*wanted, ""])


@given(source=lines, number=st.integers(1, 20), text=st.text(max_size=5))
def test_a_stale_edit_never_changes_a_thing(source: list[str], number: int, text: str) -> None:
    stale = "never there: " + "".join(source)
    with pytest.raises(PatchError):
        patch(replace(number, stale, text)).apply("\n".join([*source, ""]))


@given(source=lines, data=st.data())
def test_edits_of_all_kinds_side_by_side_do_what_their_lines_say(source: list[str], data: st.DataObject) -> None:
    """Each line of the source may be kept, replaced or taken out, and have lines put below it: all in one patch."""
    edits: list[dict[str, object]] = []
    wanted: list[str] = []
    if data.draw(st.booleans()):
        edits.append(insert(0, "", "above\nall"))
        wanted += ["above", "all"]
    for number, line in enumerate(source, start=1):
        match data.draw(st.sampled_from(["keep", "replace", "delete"])):
            case "replace":
                edits.append(replace(number, line, f"new {number}\nmore"))
                wanted += [f"new {number}", "more"]
            case "delete":
                edits.append(delete(number, line))
            case _:
                wanted.append(line)
        if data.draw(st.booleans()):
            edits.append(insert(number, line, f"below {number}"))
            wanted.append(f"below {number}")
    text, ends = "\n".join(source), data.draw(st.booleans())
    if not edits or (not ends and source[-1] == ""):
        return
    made = patch(*data.draw(st.permutations(edits))).apply(text + "\n" if ends else text)
    assert made == "\n".join(wanted) + ("\n" if ends and wanted else "")


@given(source=lines, data=st.data())
def test_a_patch_with_one_bad_edit_among_good_ones_says_so_and_lands_none(
    source: list[str], data: st.DataObject
) -> None:
    number = data.draw(st.integers(1, len(source)))
    good = replace(number, source[number - 1], "good")
    beyond = len(source) + data.draw(st.integers(1, 5))
    bad = data.draw(
        st.sampled_from(
            [
                delete(number, source[number - 1]),
                replace(beyond, "", "x"),
                insert(beyond, "", "x"),
                delete(1, "\n".join(source), end_line=beyond),
                insert(number, "never there: " + "".join(source), "x"),
            ]
        )
    )
    for edits in ((good, bad), (bad, good)):
        with pytest.raises(PatchError, match="No edit was applied"):
            patch(*edits).apply("\n".join([*source, ""]))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_with_either_line_end_is_read_alike(end: str) -> None:
    """White space at the ends of lines is not compared, and a carriage return is some."""
    source = end.join(["Größe = 1;", "  \N{SNOWMAN} = 2;", ""])
    assert patch(replace(2, "  \N{SNOWMAN} = 2;", "three")).apply(source) == f"Größe = 1;{end}three\n"
    assert patch(delete(1, f"Größe = 1;{end}  \N{SNOWMAN} = 2;{end}", end_line=2)).apply(source) == ""
    assert numbered(source).splitlines()[1].startswith("2|   \N{SNOWMAN} = 2;")


def test_leading_white_space_is_compared() -> None:
    with pytest.raises(PatchError, match="expects other text"):
        patch(replace(1, "one", "1")).apply("  one\n")


def test_two_insertions_may_stand_below_neighbouring_lines() -> None:
    assert patch(insert(1, "one", "a"), insert(2, "two", "b")).apply("one\ntwo\n") == "one\na\ntwo\nb\n"
    assert patch(insert(1, "one", "a"), replace(2, "two", "2")).apply("one\ntwo\n") == "one\na\n2\n"
