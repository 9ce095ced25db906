"""Words are found in small and capital letters alike, on every database."""

from __future__ import annotations

import pytest
from django.db import connection

from harness.accounts.models import Project, User

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Ökologie im Wald", "ökologie"),
        ("Über alles", "BER ALLES"),
        ("Прогноз спроса", "ПРОГНОЗ"),
        ("Étude\nÀ revoir", "à REVOIR"),
        ("100% of a_b\\c", "0% OF A_B\\C"),
    ],
)
def test_a_text_is_found_by_its_words_in_any_case(name: str, words: str) -> None:
    Project.objects.create(name=name, slug="found")
    assert Project.objects.filter(name__icontains=words).exists()


@pytest.mark.parametrize("words", ["100_", "1%0", "a.b"])
def test_a_sign_with_a_meaning_of_its_own_stands_for_itself(words: str) -> None:
    Project.objects.create(name="1000 of a_b", slug="other")
    assert not Project.objects.filter(name__icontains=words).exists()


def test_what_has_no_value_holds_no_words() -> None:
    with connection.cursor() as cursor:
        cursor.execute(r"SELECT NULL LIKE '%a%' ESCAPE '\', 12 || '' LIKE '%2' ESCAPE '\'")
        empty, number = cursor.fetchone()
    assert empty is None and number


def test_at_sign_in_no_letter_of_another_alphabet_passes_for_one_of_an_address() -> None:
    User.objects.create(username="kay", email="kay@example.org")
    assert User.objects.filter(email__iexact="KAY@example.org").exists()
    assert not User.objects.filter(email__iexact="\N{KELVIN SIGN}ay@example.org").exists()
