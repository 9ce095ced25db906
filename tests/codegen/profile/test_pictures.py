"""Archives of pictures: layouts, what is packed, and what is wrong with single pictures."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from codegen.profile import read_rows
from codegen.profile.pictures import picture_read
from codegen.profile.types import THUMBNAILS_FOLDER, DataKind, ProfileOptions
from tests.codegen.profile.uploads import Lab, finding, picture, pixels, png, tar_of, two_classes, zip_of


@pytest.mark.parametrize("wrap", ["", "data/", "my data/v2/"])
@pytest.mark.parametrize("pack", [zip_of, tar_of, lambda files: tar_of(files, "w")])
def test_class_folders_become_classes_whatever_wraps_them(lab: Lab, wrap: str, pack: object) -> None:
    profile = lab.profile("upload", pack(two_classes(wrap)))  # type: ignore[operator]
    assert profile.kind is DataKind.IMAGES and profile.task == "image_classification"
    assert dict(profile.classes) == {"cat": 3, "dog": 3}
    assert profile.given_split == ()
    assert lab.images().column_names == ["image", "label", "name", "width", "height"]


@pytest.mark.parametrize("wrap", ["", "set/"])
@pytest.mark.parametrize(("train", "test"), [("train", "test"), ("Training", "Testing"), ("train_set", "val")])
def test_train_and_test_folders_are_the_split(lab: Lab, wrap: str, train: str, test: str) -> None:
    files = {**two_classes(f"{wrap}{train}/"), **two_classes(f"{wrap}{test}/", count=2)}
    profile = lab.profile("upload.zip", zip_of(files))
    assert dict(profile.given_split) == {"train": 6, "val" if test == "val" else "test": 4}
    assert dict(profile.classes) == {"cat": 5, "dog": 5}
    assert set(lab.images()["__split__"].to_pylist()) == set(dict(profile.given_split))


def test_classes_may_be_named_like_parts_of_a_split(lab: Lab) -> None:
    files = {f"{label}/{i}.png": picture(i + 10 * len(label)) for label in ("train", "plane") for i in range(3)}
    assert dict(lab.profile("upload.zip", zip_of(files)).classes) == {"train": 3, "plane": 3}


def test_files_of_operating_systems_are_ignored(lab: Lab) -> None:
    files = {
        **two_classes(),
        "__MACOSX/cat/._0.png": b"x",
        "cat/.DS_Store": b"x",
        "dog/Thumbs.db": b"x",
        "dog/._1.png": b"x",
    }
    profile = lab.profile("upload.zip", zip_of(files))
    assert profile.rows == 6 and not [entry for entry in profile.warnings if entry.code == "other_files"]


@pytest.mark.parametrize("pack", [zip_of, tar_of])
def test_pictures_in_folders_that_are_ignored_are_told(lab: Lab, pack: Callable[[dict[str, bytes]], bytes]) -> None:
    junk = {".trash/1.png": picture(8), ".trash/2.png": picture(9), "cat/@eaDir/3.png": picture(10)}
    junk |= {"__MACOSX/cat/._0.png": b"x", ".git/HEAD": b"x"}
    profile = lab.profile("upload", pack({**two_classes(), **junk}))
    assert profile.rows == 6 and dict(profile.classes) == {"cat": 3, "dog": 3}
    said = finding(profile, "ignored_folders").message
    assert said.endswith("left out: '.trash' (2 pictures), '@eaDir' (1 picture).")


def test_an_archive_of_ignored_folders_alone_says_which(lab: Lab) -> None:
    problem = lab.problem("upload.zip", zip_of({".Trash/cat/1.png": picture(1), ".Trash/dog/2.png": picture(2)}))
    assert problem.code == "no_pictures" and "'.Trash' (2 pictures)" in problem.message


def test_lossless_pictures_are_packed_without_loss_as_png(lab: Lab) -> None:
    files = {
        "a/1.png": picture(1),
        "a/2.bmp": picture(2, kind="BMP"),
        "b/3.webp": picture(3, kind="WEBP", lossless=True),
        "b/4.png": picture(4, mode="L"),
    }
    profile = lab.profile("upload.zip", zip_of(files))
    for name, encoded in zip(lab.images()["name"].to_pylist(), lab.images()["image"].to_pylist(), strict=True):
        assert encoded.startswith(b"\x89PNG")
        assert (pixels(encoded) == pixels(files[name])).all()
    assert profile.images and profile.images.channels == 3
    assert finding(profile, "grey_and_colour")


def test_jpeg_bytes_are_kept_as_they_are(lab: Lab) -> None:
    files = {
        f"{label}/{i}.jpg": picture(i, kind="JPEG", mode=mode)
        for i, (label, mode) in enumerate((("a", "RGB"), ("b", "L")))
    }
    lab.profile("upload.zip", zip_of(files))
    assert lab.images()["image"].to_pylist() == list(files.values())


def test_a_picture_lying_on_its_side_is_turned_upright(lab: Lab) -> None:
    turned = Image.new("RGB", (40, 20), "red")
    turned.paste("blue", (0, 0, 10, 20))
    exif = Image.Exif()
    exif[0x0112] = 6
    target = io.BytesIO()
    turned.save(target, "JPEG", exif=exif, quality=95)
    profile = lab.profile("upload.zip", zip_of({"a/1.jpg": target.getvalue(), "b/2.png": picture(1)}))
    row = lab.images().slice(0, 1).to_pylist()[0]
    assert (row["width"], row["height"]) == (20, 40)
    upright = pixels(row["image"])
    assert upright.shape[:2] == (40, 20)
    assert upright[2, 10, 2] > 200 and upright[35, 10, 0] > 200
    assert Image.open(io.BytesIO(row["image"])).getexif().get(0x0112, 1) == 1
    assert profile.images and profile.images.height_max == 40


def test_a_very_large_picture_is_scaled_down_and_told(lab: Lab) -> None:
    files = {
        "a/big.png": picture(1, size=(1500, 600)),
        "b/big.jpg": picture(2, size=(2400, 3000), kind="JPEG"),
        "b/1.png": picture(3),
    }
    profile = lab.profile("upload.zip", zip_of(files))
    sizes = {row["name"]: (row["width"], row["height"]) for row in lab.images().to_pylist()}
    assert sizes == {"a/big.png": (512, 205), "b/big.jpg": (410, 512), "b/1.png": (12, 10)}
    assert set(finding(profile, "resized").files) == {"a/big.png", "b/big.jpg"}
    assert profile.images and (profile.images.width_max, profile.images.height_max) == (2400, 3000)
    assert finding(profile, "sizes_differ")


def test_transparency_is_laid_on_white_and_told(lab: Lab) -> None:
    clear = io.BytesIO()
    Image.new("RGBA", (8, 8), (10, 20, 30, 0)).save(clear, "PNG")
    profile = lab.profile("upload.zip", zip_of({"a/1.png": clear.getvalue(), "b/2.png": picture(1)}))
    assert (pixels(lab.images()["image"][0].as_py()) == 255).all()
    assert finding(profile, "transparency").files == ("a/1.png",)


def test_the_first_frame_of_a_gif_is_used(lab: Lab) -> None:
    frames = [Image.new("L", (8, 8), value) for value in (10, 200)]
    target = io.BytesIO()
    frames[0].save(target, "GIF", save_all=True, append_images=frames[1:])
    profile = lab.profile("upload.zip", zip_of({"a/1.gif": target.getvalue(), "b/2.png": picture(1)}))
    assert int(pixels(lab.images()["image"][0].as_py()).flat[0]) == 10
    assert finding(profile, "several_frames").files == ("a/1.gif",)


def png_of_size(width: int, height: int, rows: int | None = None) -> bytes:
    """A grey PNG that says one size and holds `rows` rows of zeros."""
    data = bytes((width + 1) * (height if rows is None else rows))
    return png(struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0), data)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "is empty"),
        (b"no picture at all", "is not a PNG"),
        (picture(9)[:200], "cut"),
        (picture(9, size=(200, 200), kind="JPEG")[:4000], "damaged"),
        (png_of_size(40, 40, rows=10), "last rows are missing"),
        (png_of_size(50_000, 50_000, rows=1), "pixels"),
        (png_of_size(12_000, 12_000, rows=1), "pixels"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not a PNG"),
    ],
)
@pytest.mark.filterwarnings("error::PIL.Image.DecompressionBombWarning")
def test_a_bad_picture_among_good_ones_is_left_out_and_named(lab: Lab, body: bytes, word: str) -> None:
    profile = lab.profile("upload.zip", zip_of({**two_classes(), "dog/bad.png": body}))
    found = finding(profile, "broken_picture")
    assert found.files == ("dog/bad.png",) and word in found.message
    assert profile.rows == 6 and "dog/bad.png" not in lab.images()["name"].to_pylist()


def test_only_bad_pictures_are_refused(lab: Lab) -> None:
    problem = lab.problem("upload.zip", zip_of({"a/1.png": b"x", "b/2.png": b"y"}))
    assert (problem.code, problem.file) == ("all_pictures_broken", "a/1.png")


def test_a_class_whose_pictures_are_all_broken_is_told(lab: Lab) -> None:
    profile = lab.profile("upload.zip", zip_of({**two_classes(), "owl/1.png": b"x"}))
    assert "'owl'" in finding(profile, "class_lost").message


def test_copies_conflicts_and_leaks_are_named(lab: Lab) -> None:
    files = {**two_classes("train/"), **two_classes("test/", count=2)}
    files["train/cat/copy.png"] = files["train/cat/0.png"]
    files["train/dog/wrong.png"] = files["train/cat/1.png"]
    files["test/dog/leak.png"] = files["train/dog/2.png"]
    profile = lab.profile("upload.zip", zip_of(files))
    assert profile.duplicate_rows == 3
    assert set(finding(profile, "duplicate_pictures").files) == {"train/cat/0.png", "train/cat/copy.png"}
    assert set(finding(profile, "conflicting_labels").files) == {"train/cat/1.png", "train/dog/wrong.png"}
    assert set(finding(profile, "split_leak").files) == {"train/dog/2.png", "test/dog/leak.png"}


def test_the_same_pixels_in_another_encoding_are_a_copy(lab: Lab) -> None:
    files = {**two_classes(), "cat/again.bmp": picture(zlib.crc32(b""), kind="BMP")}
    assert lab.profile("upload.zip", zip_of(files)).duplicate_rows == 1


def test_a_class_missing_in_train_is_told(lab: Lab) -> None:
    files = {**two_classes("train/"), "test/owl/1.png": picture(77), "test/cat/2.png": picture(78)}
    assert "'owl'" in finding(lab.profile("upload.zip", zip_of(files)), "class_not_in_train").message


def test_one_class_and_single_pictures_are_told(lab: Lab) -> None:
    profile = lab.profile("upload.zip", zip_of({**two_classes(), "owl/only.png": picture(50)}))
    assert finding(profile, "single_sample_class").files == ("owl/only.png",)
    one = lab.profile("upload.zip", zip_of({"cat/1.png": picture(1), "cat/2.png": picture(2)}))
    assert finding(one, "one_class")


def test_pictures_without_class_folders_are_refused(lab: Lab) -> None:
    problem = lab.problem("upload.zip", zip_of({f"{i}.png": picture(i) for i in range(3)}))
    assert (problem.code, problem.file) == ("no_class_folders", "0.png")


@pytest.mark.parametrize("above", ["", "train/"])
def test_folders_below_those_of_the_classes_are_told(lab: Lab, above: str) -> None:
    files = {f"{above}{size}/{name}": body for size in ("big", "small") for name, body in two_classes(size).items()}
    files[f"{above}big/flat.png"] = picture(99)
    profile = lab.profile("upload.zip", zip_of(files))
    assert set(dict(profile.classes)) == {"big", "small"}
    found = finding(profile, "deeper_folders")
    assert found.message.startswith("12 pictures lie in folders below") and "counts as 'big'" in found.message


def test_labels_in_a_file_beside_the_pictures_are_told_as_not_read(lab: Lab) -> None:
    flat = {f"{i}.png": picture(i) for i in range(3)} | {"labels.csv": b"file,label\n0.png,cat\n"}
    assert "labels.csv) are not read" in lab.problem("upload.zip", zip_of(flat)).hint
    below = {f"data/{name}" if name.endswith(".png") else name: body for name, body in flat.items()}
    found = finding(lab.profile("upload.zip", zip_of(below)), "one_class")
    assert "labels.csv) are not read" in found.meaning and found.files == ("labels.csv",)


def test_pictures_out_of_place_and_other_files_are_named(lab: Lab) -> None:
    files = {
        **two_classes("train/"),
        "train/loose.png": picture(60),
        "extra/cat/1.png": picture(61),
        "train/notes.txt": b"hi",
        "train/cat/scan.tif": b"II*",
    }
    profile = lab.profile("upload.zip", zip_of(files))
    assert finding(profile, "unlabelled_pictures").files == ("train/loose.png",)
    assert finding(profile, "outside_split").files == ("extra/cat/1.png",)
    assert finding(profile, "unsupported_pictures").files == ("train/cat/scan.tif",)
    assert finding(profile, "other_files").files == ("train/notes.txt",)


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"data.csv": b"a,b\n1,2\n"}, "table_in_archive"),
        ({"readme.md": b"x"}, "no_pictures"),
        ({"inner.ZIP": b"PK\x03\x04", "readme.md": b"x"}, "archive_in_archive"),
        ({"a/1.tif": b"II*"}, "unsupported_pictures"),
        ({}, "empty_file"),
    ],
)
def test_an_archive_without_usable_pictures_is_refused(lab: Lab, files: dict[str, bytes], code: str) -> None:
    assert lab.problem("upload.zip", zip_of(files)).code == code


def test_ten_thousand_classes_of_pictures_are_profiled(lab: Lab) -> None:
    body = [picture(seed, size=(2, 2)) for seed in range(50)]
    files = [(f"c{i % 10_000}/{i}.png", body[i % 50]) for i in range(10_100)]
    profile = lab.profile("upload.zip", zip_of(files))
    assert len(profile.classes) == 10_000 and finding(profile, "many_classes")
    assert finding(profile, "conflicting_labels")
    assert len(list((lab.out / THUMBNAILS_FOLDER).iterdir())) <= 600


def test_thumbnails_are_small_pngs_of_every_class(lab: Lab) -> None:
    profile = lab.profile("upload.zip", zip_of({**two_classes(count=9), "owl/big.png": picture(1, size=(700, 300))}))
    assert profile.images
    labels = [label for label, _ in profile.images.thumbnails]
    assert {label: labels.count(label) for label in set(labels)} == {"cat": 6, "dog": 6, "owl": 1}
    for _, name in profile.images.thumbnails:
        with Image.open(lab.out / THUMBNAILS_FOLDER / name) as thumbnail:
            assert thumbnail.format == "PNG" and max(thumbnail.size) <= 96


def test_channel_figures_are_those_of_the_pixels(lab: Lab) -> None:
    files = two_classes()
    images = lab.profile("upload.zip", zip_of(files)).images
    values = np.stack([pixels(body) for body in files.values()]).reshape(-1, 3) / 255
    assert images and images.channel_mean == pytest.approx(values.mean(axis=0))
    assert images.channel_std == pytest.approx(values.std(axis=0))


def test_rows_of_pictures_are_read_without_the_pictures(lab: Lab) -> None:
    lab.profile("upload.zip", zip_of({**two_classes("train/"), **two_classes("test/", 1)}))
    columns, rows = read_rows(lab.out, 1, 2)
    assert columns == ["label", "name", "width", "height", "__split__"]
    assert rows == [["dog", "test/dog/0.png", 12, 10, "test"], ["cat", "train/cat/0.png", 12, 10, "train"]]


def test_options_for_tables_are_refused(lab: Lab) -> None:
    assert ProfileOptions().target is None
    assert lab.problem("upload.zip", zip_of(two_classes()), target="label").code == "bad_options"


def test_what_a_png_holds_behind_its_last_row_is_not_unpacked() -> None:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 10, 10, 8, 2, 0, 0, 0))
    body = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(64 << 20))) + chunk(b"IEND", b"")
    tracemalloc.start()
    read = picture_read(body)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (read.width, read.height) == (10, 10)
    assert peak_bytes < 16 << 20
