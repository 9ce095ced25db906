"""Things by their counts against sorting all of them anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.placing.buckets import Buckets

COUNTED = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 4)), max_size=20)


@given(COUNTED, COUNTED, st.integers(1, 5), st.frozensets(st.sampled_from("abcdefg")))
def test_things_come_in_the_order_that_sorting_them_anew_gives(first, later, least, liked):
    buckets = Buckets(dict(first).items())
    counts = dict(first)
    for thing, count in later:
        assert buckets.put(thing, count) == count - counts.get(thing, 0)
        counts[thing] = count
    pairs = [(count, thing) for thing, count in counts.items() if count]
    enough = [(count, thing) for count, thing in pairs if count >= least]
    assert list(buckets.fewest_first(least)) == [thing for _, thing in sorted(enough)]
    assert list(buckets.most_first()) == sorted(pairs, key=lambda pair: (-pair[0], pair[1]))
    turn = [(count, thing not in liked, thing) for count, thing in enough]
    assert list(buckets.fewest_first(least, liked)) == [thing for *_, thing in sorted(turn)]
    most = sorted(pairs, key=lambda pair: (-pair[0], pair[1] not in liked, pair[1]))
    assert list(buckets.most_first(liked)) == most
    assert list(buckets.in_order(least)) == sorted(thing for _, thing in enough)
