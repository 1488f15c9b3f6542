"""Infrastructures: the published tables as the design states them, TOML files, and the sentence each bad one gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from scaler.model.nodes import NodeType
from sim.infrastructure import INFRASTRUCTURES, Infrastructure, find_infrastructure, read_infrastructure

A = [1.0, 0.7, 1.3, 0.9, 1.7, 0.8, 1.8, 2.0, 1.65, 1.5]
B = [1.0, 0.05, 30.0, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0, 7.0]
B_EARLIER = [1.0, 0.05, 7.0, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0, 10.0]
CLOUD = """
name = "cloud"
[[node]]
name = "small"
speedup = 1
price = 0.05
[[node]]
name = "large"
speedup = 2.5
price = 0.2
"""

positive = st.floats(1e-6, 1e6)


def put(folder: Path, text: str) -> Path:
    path = folder / "nodes.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "speedups", "exponent", "normaliser"),
    [("A", A, 1.0, 2.0), ("B", B, 1.0, 30.0), ("B2", B, 1.1, 30.0), ("B-earlier", B_EARLIER, 1.0, 10.0)],
)
@pytest.mark.parametrize("n_res", [None, 1, 2, 3, 6, 10])
def test_published_tables(name: str, speedups: list[float], exponent: float, normaliser: float, n_res: int) -> None:
    found = find_infrastructure(name, n_res)
    assert [node.speedup for node in found.types] == speedups[:n_res]
    assert [node.price for node in found.types] == pytest.approx([s**exponent for s in speedups[:n_res]])
    assert (found.name, found.normaliser_price) == (name, normaliser)


@pytest.mark.parametrize("name", INFRASTRUCTURES)
def test_published_types_are_numbered_from_one(name: str) -> None:
    names = [node.name for node in find_infrastructure(name).types]
    assert names[0].endswith("1")
    assert names[9].endswith("10")
    assert len(set(names)) == 10


def test_a_file_gives_its_types_and_the_dearest_price(tmp_path: Path) -> None:
    path = put(tmp_path, CLOUD)
    cloud = read_infrastructure(path)
    assert cloud == Infrastructure("cloud", (NodeType("small", 1.0, 0.05), NodeType("large", 2.5, 0.2)), 0.2)
    assert find_infrastructure(path) == find_infrastructure(str(path), 2) == cloud
    assert find_infrastructure(path, 1) == Infrastructure("cloud", cloud.types[:1], 0.2)


def test_a_file_may_give_the_normaliser(tmp_path: Path) -> None:
    assert read_infrastructure(put(tmp_path, f"normaliser_price = 7\n{CLOUD}")).normaliser_price == 7.0


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=6))
def test_any_positive_numbers_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, nodes: list[tuple[float, float]]
) -> None:
    lines = ['name = "any"']
    for i, (speedup, price) in enumerate(nodes):
        lines += ["[[node]]", f'name = "n{i}"', f"speedup = {speedup}", f"price = {price}"]
    found = read_infrastructure(put(tmp_path_factory.getbasetemp(), "\n".join(lines)))
    assert [(node.speedup, node.price) for node in found.types] == nodes
    assert found.normaliser_price == max(price for _, price in nodes)


HEADED = "and must be a list of tables; head each one with [[node]]"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("price = 0.2", "price = 0", "node type 'large': price is 0.0, and must be a positive number"),
        ("price = 0.2", "price = -0.2", "node type 'large': price is -0.2, and must be a positive number"),
        ("price = 0.2", "price = nan", "node 'large': price is nan, and must be a finite number"),
        ("price = 0.2", "price = inf", "node 'large': price is inf, and must be a finite number"),
        ("price = 0.2", "price = 1" + "0" * 400, "node 'large': price is 1000"),
        ("price = 0.2", 'price = "0.2"', "node 'large': price is '0.2', and must be a finite number"),
        ("price = 0.2", "price = true", "node 'large': price is true, and must be a finite number"),
        ("price = 0.2", "", "node 'large': price is missing, and must be a finite number"),
        ("speedup = 2.5", "speedup = 0.0", "node type 'large': speedup is 0.0, and must be a positive number"),
        ("speedup = 2.5", "speedup = -1", "node type 'large': speedup is -1.0, and must be a positive number"),
        ("speedup = 2.5", "", "node 'large': speedup is missing, and must be a finite number"),
        ("speedup = 2.5", "speed = 2.5", "node 'large': speed: there is no such key here; did you mean 'speedup'?"),
        ('name = "large"', "", "node 2: name is missing, and must be a text"),
        ('name = "large"', "name = 4", "node 2: name is 4, and must be a text"),
        ('name = "large"', 'name = ""', "node 2: name is '', and must be a text"),
        ('name = "large"', 'name = "small"', "node 'small' is named twice, and each must have a name of its own"),
        ('name = "cloud"', "", "the file: name is missing, and must be a text"),
        (
            'name = "cloud"',
            'name = "cloud"\nregion = 1',
            "the file: region: there is no such key here; the keys are name",
        ),
        ('name = "cloud"', 'name = "cloud"\nnormaliser_price = 0', "normaliser_price is 0.0, and must be a positive"),
        ('name = "cloud"', 'name = "cloud"\nnormaliser_price = ""', "the file: normaliser_price is '', and must be a"),
        (CLOUD, 'name = "cloud"\n', "infrastructure 'cloud' has no node, and must have at least one"),
        (
            CLOUD,
            'name = "cloud"\nnode = 4\n',
            f"the file: node is 4, {HEADED}",
        ),
        (
            CLOUD,
            'name = "cloud"\nnode = [4]\n',
            f"the file: node is [4], {HEADED}",
        ),
        (
            CLOUD,
            'name = "cloud"\n[node]\nname = "x"\n',
            f"the file: node is {{'name': 'x'}}, {HEADED}",
        ),
    ],
)
def test_a_wrong_file_gets_a_sentence_that_names_it(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in CLOUD
    path = put(tmp_path, CLOUD.replace(old, new))
    with pytest.raises(BadInput) as refused:
        read_infrastructure(path)
    assert str(refused.value).startswith(f"{path}: {said}")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "name = 'cloud'\n[[node]\n")
    with pytest.raises(BadInput, match=r"nodes\.toml is not TOML: .*line 2.*; correct it there"):
        read_infrastructure(path)
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(BadInput, match=r"nodes\.toml holds bytes that are no text; the file must be UTF-8"):
        read_infrastructure(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.toml cannot be read \(No such file or directory\); name a TOML file"):
        find_infrastructure(tmp_path / "none.toml")
    with pytest.raises(BadInput, match=r"cannot be read \(Is a directory\); name a TOML file"):
        read_infrastructure(tmp_path)


@pytest.mark.parametrize("n_res", [0, -1, 11])
def test_more_types_than_there_are_are_refused(n_res: int) -> None:
    with pytest.raises(BadInput, match=f"infrastructure A: n_res is {n_res}, and must be from 1 to 10"):
        find_infrastructure("A", n_res)


def test_a_file_with_fewer_types_than_asked_for_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nodes\.toml: n_res is 3, and must be from 1 to 2"):
        find_infrastructure(put(tmp_path, CLOUD), 3)


def test_an_unknown_name_gets_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"no infrastructure 'C'; choose A, B, B2, B-earlier or name a \.toml file"):
        find_infrastructure("C")
