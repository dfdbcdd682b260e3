"""What of a database's URI may be shown: nothing of a malformed one, no secret in errors; driver and executors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

_POSTGRES_SCHEMES = ("postgresql://", "postgres://")
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|credential|auth", re.IGNORECASE)
_NO_SECRETS = frozenset(("sslkey", "passfile", "sslkeylogfile", "require_auth"))  # paths, and names of methods
_SETTING = re.compile(r"""([\w.]+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&;]*)""")
_LIBPQ_SETTING = re.compile(r"""\s*\w+\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?!')(?:[^\s\\]|\\.)*)(?=\s|$)""", re.DOTALL)
_LIBPQ_NAMES = re.compile(
    r"service\w*|user|host(addr)?|port|dbname|options|\w+_\w+|keepalives|replication|(ssl|gss|krb|require)\w+|tty"
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_HOSTS = re.compile(r"(?:\[[^\[\]]*\]|[^\[\]:,]*)(?::\d*)?(?:,(?:\[[^\[\]]*\]|[^\[\]:,]*)(?::\d*)?)*")
_SHORTEST_SECRET = 8  # a shorter one is a part of other words: hidden, it would make errors unreadable


def check_uri(driver: str, uri: str) -> None:
    """Raises ValueError, which shows nothing of the URI, for one that PostgreSQL's library reads otherwise than meant.

    The library would take a part of the password for a host or a setting, and say which in its errors.
    """
    if driver != "postgresql" or not uri:
        return
    scheme = next((scheme for scheme in _POSTGRES_SCHEMES if uri.startswith(scheme)), None)
    wrong = _wrong_settings(uri) if scheme is None else _wrong_url(uri.removeprefix(scheme))
    if wrong:
        raise ValueError(
            f"the uri to connect to PostgreSQL with is malformed: {wrong}. It reads postgresql://user:password@host:port/"
            "database, with @ / ? % & = and blanks in a user or a password percent-encoded, as by "
            "urllib.parse.quote(password, safe=''); or host=... password='...', with \\ before ' and \\"
        )


def _wrong_settings(text: str) -> str | None:
    end = 0
    while found := _LIBPQ_SETTING.match(text, end):
        end = found.end()
    if text[end:].strip():
        return "it is neither a URL nor a list of settings"
    return _unknown_setting([name for name, _ in _SETTING.findall(text)])


def _unknown_setting(names: list[str]) -> str | None:
    """PostgreSQL's library says the name of a setting that it does not know: beside a password, that may be a piece of
    it, after a blank or an &.
    """
    known = [name for name in names if _SECRET_NAME.search(name) or _LIBPQ_NAMES.fullmatch(name)]
    if len(known) == len(names) or not any(map(_SECRET_NAME.search, names)):
        return None
    return "it has a password, and a setting that PostgreSQL does not know, which may be a piece of it"


def _wrong_url(rest: str) -> str | None:
    """In the parts that PostgreSQL's library sees: the first @ ends the password, unless a / comes before it."""
    authority, _, path = rest.partition("/")
    user, at, hosts = authority.partition("@") if "@" in authority else ("", "", authority)
    database, _, query = path.partition("?")
    if "?" in hosts:
        hosts, _, query = rest.removeprefix(user + at).partition("?")
        hosts, database = hosts.partition("/")[0], ""
    pairs = query.split("&") if query else []
    if any(char.isspace() for char in rest):
        return "it has a blank"
    if "@" in hosts + database or "?" in user:
        return "a password ends at the first @, and holds no / and no ?"
    if _BAD_PERCENT.search(rest):
        return "a % is not followed by two hexadecimal digits"
    if not _HOSTS.fullmatch(hosts):
        return "the part of host and port is not host:number"
    if any(pair.count("=") != 1 or pair.startswith("=") for pair in pairs):
        return "what follows the ? is not name=value, joined by &"
    names = [pair.partition("=")[0] for pair in pairs]
    return _unknown_setting([*names, "password"] if ":" in user else names)


def without_credentials(error: Exception, uri: str, options: Iterable[tuple[str, str]]) -> Exception:
    """The error, and those it came from, without secrets in their texts; another where its text cannot be changed.

    URIs with secrets are hidden, and whole secrets of eight and more characters; nothing else is.
    """
    settings = dict(options)
    shown_as = {one: "<uri>" for one in (uri, settings.get("uri", "")) if _secrets(one)}
    named = [value for name, value in settings.items() if _is_secret(name)]
    for secret in (*_secrets(uri), *_secrets(settings.get("uri", "")), *named):
        if len(secret) >= _SHORTEST_SECRET:
            shown_as.setdefault(secret, "***")
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            break
        seen.args = tuple(_hidden(part, shown_as) if isinstance(part, str) else part for part in seen.args)
        seen = seen.__cause__ or seen.__context__
    text = str(error)
    clean = _hidden(text, shown_as)
    return error if clean == text else RuntimeError(f"{type(error).__name__}: {clean}")


def _hidden(text: str, shown_as: Mapping[str, str]) -> str:
    """Longer ones first: a secret may be a part of another, or of the URI."""
    for secret in sorted(shown_as, key=len, reverse=True):
        text = text.replace(secret, shown_as[secret])
    return text


def _secrets(uri: str) -> list[str]:
    """Passwords and tokens of a URL or of ``name=value`` settings, as they stand there and decoded."""
    found = []
    if "://" in uri:
        before_host = uri.partition("://")[2].rpartition("@")[0]
        found.append(before_host.partition(":")[2])
    found += [value.strip("'") for name, value in _SETTING.findall(uri) if _is_secret(name)]
    return [form for secret in found if secret for form in (secret, unquote(secret), _ESCAPED.sub(r"\1", secret))]


def _is_secret(setting: str) -> bool:
    return bool(_SECRET_NAME.search(setting)) and setting not in _NO_SECRETS
