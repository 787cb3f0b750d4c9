"""How the settings of two peers differ, also where one of them is hostile."""

import re
from dataclasses import replace

from hypothesis import given, settings, strategies as st

from peerclust.runtimes.network.contract import Peer
from peerclust.runtimes.network.contract_differences import differences


def test_differences_name_the_settings_and_both_sides(base, certificates):
    def explained(**changes):
        return differences(base.settings(), replace(base, **changes).settings(), "bern")

    assert explained(n_clusters=4, rho=5.0) == [
        "bern has n_clusters = 4, here it is 3.",
        "bern has rho = 5.0, here it is 'auto'.",
    ]
    assert explained(features=("x", "z")) == [
        "bern lacks the feature 'y'.",
        "bern has the feature 'z', which is not here.",
    ]
    assert explained(features=("y", "x")) == [
        "bern has the features in another order: number 1 is 'y', here it is 'x'."
    ]
    assert explained(links=(("0", "10"), ("0", "2"))) == [
        "bern lacks the link '10 - 2'.",
        "bern has the link '0 - 2', which is not here.",
    ]
    rest = base.peers[1:]
    assert explained(peers=(*rest, Peer("c", "c:1", certificates["c"]))) == [
        "bern lacks the peer '0'.",
        "bern has the peer 'c', which is not here.",
    ]
    moved, renewed = explained(peers=(Peer("0", "far:1", certificates["c"]), *rest))
    assert moved == "bern has the address 'far:1' of 0, here it is 'host:4000'."
    assert re.fullmatch(
        r"bern has the certificate 'sha256:\w+\.\.\.\w+' of 0, here it is 'sha256:\w+\.\.\.\w+'\.",
        renewed,
    )
    theirs = base.settings() | {"color": "red"}
    del theirs["seed"]
    assert differences(base.settings(), theirs, "bern") == [
        "bern did not send seed.",
        "bern has settings that are unknown here: 'color'.",
    ]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip


@settings(deadline=None)
@given(st.data())
def test_differences_of_hostile_settings_are_short_printable_sentences(base, data):
    mine = base.settings()
    hostile = {k: data.draw(anything) for k in data.draw(st.sets(st.sampled_from([*mine])))}
    theirs = data.draw(st.one_of(anything, st.just(mine | hostile)))
    for sentence in differences(mine, theirs, "bern"):
        assert sentence.startswith("bern ")
        assert sentence.isprintable()
        assert len(sentence) < 500


def test_differences_stay_few_and_short_whatever_their_size(base):
    mine = base.settings()
    huge, deep = "\x1b[2J" * 10**6, []
    for _ in range(10**5):
        deep = [deep]
    wide = [[[[[huge] * 9] * 9] * 9] * 9] * 9
    for value in (huge, [huge] * 100, {huge: huge}, deep, 10**5000, [[huge, huge]] * 9, True, wide):
        theirs = dict.fromkeys(mine, value) | {f"{huge}{i}": 1 for i in range(9)}
        said = differences(mine, theirs, "bern")
        assert len(said) <= 2 * len(mine) + 1
        assert all(len(each) < 500 and each.isprintable() for each in said)
    many = {str(i): [huge, huge] for i in range(1000)} | {name: [1, 2] for name in mine["peers"]}
    said = differences(mine, mine | {"peers": many}, "bern")
    assert len(said) <= 7
    assert all(len(each) < 500 and each.isprintable() for each in said)
