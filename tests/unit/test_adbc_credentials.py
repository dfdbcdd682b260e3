"""A database's credentials, looked for in every text: of URIs that are malformed, and of connections that fail."""

from __future__ import annotations

import traceback

import pytest

import headrace as hr
from headrace.tables.adbc.access import AdbcAccess

MALFORMED = {
    "port is no number": "postgresql://ann:Hunter-zwei@127.0.0.1:abc/shop",
    "port of the password": "postgresql://ann:Hunter-zwei",
    "@ in the password": "postgresql://ann:Hunter@zwei@127.0.0.1:5432/shop",
    "/ in the password": "postgresql://ann:Hunter/zwei@127.0.0.1:5432/shop",
    "/ after a number": "postgresql://ann:5432/Hunter-zwei@127.0.0.1/shop",
    "? in the password": "postgresql://ann:Hunter?zwei@127.0.0.1/shop",
    "% in the password": "postgresql://ann:Hunter%zwei@127.0.0.1/shop",
    "%00 in the password": "postgresql://ann:Hunter%00zwei@127.0.0.1/shop",
    "% at the end": "postgresql://ann:Hunter-zwei%@127.0.0.1/shop",
    "a blank in the password": "postgresql://ann:Hunter zwei@127.0.0.1/shop",
    "a bracket": "postgresql://ann:Hunter-zwei@[::1/shop",
    "a bracket too many": "postgresql://ann:Hunter-zwei@::1]/shop",
    "no colon before //": "postgresql//ann:Hunter-zwei@127.0.0.1/shop",
    "one slash": "postgresql:/ann:Hunter-zwei@127.0.0.1/shop",
    "no scheme": "ann:Hunter-zwei@127.0.0.1/shop",
    "another scheme": "mysql://ann:Hunter-zwei@127.0.0.1/shop",
    "another scheme and a setting": "postgresqll://ann:Hunter-zwei@127.0.0.1/shop?sslmode=require",
    "a scheme in capitals": "PostgreSQL://ann:Hunter-zwei@127.0.0.1/shop",
    "two = in a parameter": "postgresql://127.0.0.1/shop?password=Hunter=zwei",
    "& in a parameter": "postgresql://127.0.0.1/shop?password=Hunter&zwei",
    "@ in a parameter": "postgresql://127.0.0.1?user=ann&password=Hunter@zwei",
    "% in a parameter": "postgresql://127.0.0.1/shop?password=Hunter%zwei",
    "a blank in a setting": "host=127.0.0.1 password=Hunter zwei",
    "a quote that does not end": "host=127.0.0.1 password='Hunter-zwei",
    "a quote within a quote": "host=127.0.0.1 password='Hunter'zwei'",
    "a blank before another setting": "host=127.0.0.1 password=Hunter zwei=1",
    "& before another parameter": "postgresql://127.0.0.1/shop?password=Hunter&zwei=1",
    "@ and ? in the password": "postgresql://ann:Hunter@zwei?unter=1@127.0.0.1/shop",
    "settings with a hyphen": "host=127.0.0.1 Hunter-zwei=1",
}
WELL_FORMED = [
    "postgresql://ann:Hunter-zwei@127.0.0.1:1/shop",
    "postgresql://ann:Hunter%40zwei@127.0.0.1:1/shop",
    "postgresql://ann:Hunter:zwei@127.0.0.1:1,127.0.0.1:1/shop?connect_timeout=5",
    "postgres://ann:Hunter-zwei@[::1]:1",
    "postgresql://127.0.0.1:1/shop?user=ann&password=Hunter-zwei&sslmode=disable",
    "postgresql:///shop?host=/no/such/place&password=Hunter-zwei",
    "host=127.0.0.1 port=1 password='Hunter \\' zwei'",
    "host = 127.0.0.1 port=99999 password=Hunter-zwei",
]
OPTION = {"adbc.password": "Hunter-zwei"}


def shown(error: BaseException) -> str:
    """All that a user or a log may see of an error, those behind it included."""
    texts = []
    seen: BaseException | None = error
    while seen is not None:
        texts += [str(seen), repr(seen), repr(seen.args), repr(vars(seen)), "".join(traceback.format_exception(seen))]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(texts)


def without_the_test_itself(text: str) -> str:
    """Tracebacks quote lines of this file."""
    return "\n".join(line for line in text.splitlines() if "hr.Adbc" not in line)


def assert_hidden(error: BaseException) -> None:
    text = without_the_test_itself(shown(error))
    assert "unter" not in text, text
    assert "zwei" not in text, text


@pytest.mark.parametrize("uri", MALFORMED.values(), ids=list(MALFORMED))
def test_malformed_uri_is_refused_unseen(uri: str) -> None:
    with pytest.raises(ValueError, match="connect to PostgreSQL with is malformed") as caught:
        hr.AdbcTable("postgresql", uri, "t")
    assert_hidden(caught.value)
    with pytest.raises(ValueError, match="is malformed"):
        hr.AdbcCatalog("adbc_driver_postgresql", uri)
    with pytest.raises(ValueError, match="is malformed"):
        hr.AdbcTable("postgresql", "", "t", db_kwargs={"uri": uri})


@pytest.mark.parametrize("uri", WELL_FORMED)
def test_uri_that_leads_nowhere_fails_without_its_secrets(uri: str) -> None:
    table = hr.AdbcTable("postgresql", uri, "t")
    assert_hidden_in = [repr(table), repr(vars(table)), repr(AdbcAccess("postgresql", uri))]
    assert not [text for text in assert_hidden_in if "unter" in text or "zwei" in text]
    for ask in (table.schema, hr.AdbcCatalog("postgresql", uri).schema_names):
        with pytest.raises(Exception, match=r"libpq|connect|option") as caught:
            ask()
        assert_hidden(caught.value)


def test_secret_of_an_option_is_hidden_in_the_error_and_in_those_behind_it() -> None:
    access = AdbcAccess("other", "x", tuple(OPTION.items()))
    first, second = KeyError("Hunter-zwei is no key"), OSError("cannot log in with Hunter-zwei")
    second.__cause__ = first
    error = access.scrubbed(second)
    assert error is second
    assert "cannot log in with ***" in str(error)
    assert_hidden(error)


def test_error_that_keeps_its_text_elsewhere_is_replaced() -> None:
    class OwnTextError(Exception):
        def __str__(self) -> str:
            return "cannot log in with Hunter-zwei"

    error = AdbcAccess("other", "x", tuple(OPTION.items())).scrubbed(OwnTextError())
    assert str(error) == "OwnTextError: cannot log in with ***"


@pytest.mark.parametrize("password", ["x", "a", "error", "syntax", "near"])
def test_short_password_leaves_errors_as_they_are(password: str) -> None:
    text = 'syntax error near "max(x)" in shop.db'
    uris = [f"postgresql://ann:{password}@db/shop", f"host=db password={password}", "x", ""]
    for uri, options in [(uri, ()) for uri in uris] + [(uri, (("adbc.password", password),)) for uri in uris]:
        assert str(AdbcAccess("other", uri, options).scrubbed(OSError(text))) == text


def test_uri_with_a_short_password_is_hidden_as_a_whole() -> None:
    uri = "postgresql://ann:x@db/shop"
    for access in (AdbcAccess("postgresql", uri), AdbcAccess("postgresql", "", (("uri", uri),))):
        assert str(access.scrubbed(OSError(f"no connection to {uri}: exit"))) == "no connection to <uri>: exit"


def test_path_of_a_key_and_method_of_a_password_are_shown() -> None:
    """They say what is wrong, and tell nothing."""
    uri = "host=db password=Hunter-zwei sslkey=/home/ann/client.key require_auth=scram-sha-256"
    shown = 'private key file "/home/ann/client.key" does not exist, scram-sha-256'
    error = AdbcAccess("postgresql", uri).scrubbed(RuntimeError(f"{shown}, Hunter-zwei"))
    assert str(error) == f"{shown}, ***"


def test_pieces_of_a_secret_are_shown() -> None:
    access = AdbcAccess("other", "x", tuple(OPTION.items()))
    assert str(access.scrubbed(OSError("the Hunter went to Hunter-zwei"))) == "the Hunter went to ***"


def test_secret_is_hidden_in_every_form() -> None:
    uri = "host=db password='it\\'s %41 long' user=ann"
    for form in ("it\\'s %41 long", "it's %41 long", "it\\'s A long"):
        assert str(AdbcAccess("postgresql", uri).scrubbed(OSError(f"bad: {form}"))) == "bad: ***"


def test_settings_that_postgresql_knows_are_taken() -> None:
    for setting in (
        "requirepeer=ann",
        "require_auth=none",
        "sslmode=require",
        "servicefile=x",
        "load_balance_hosts=disable",
    ):
        AdbcAccess("postgresql", f"host=db password=Hunter-zwei {setting}")
        AdbcAccess("postgresql", f"postgresql://ann:Hunter-zwei@db/shop?{setting}")
