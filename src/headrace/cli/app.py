"""The ``headrace`` command: demo, sql, explain, check, doctor, new; driver Python."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from headrace import __version__
from headrace.cli.new import new_provider
from headrace.cli.output import Batches, print_rows, writer_to
from headrace.errors import HeadraceError
from headrace.provider import TableProvider
from headrace.write import WritableProvider

if TYPE_CHECKING:
    from headrace.spark.session import SessionContext
    from headrace.testing import Report

_WIDTH_OFF_TERMINAL = 100

app = typer.Typer(
    name="headrace",
    help="Query Python table providers with Spark SQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

new = typer.Typer(name="new", help="Write the beginnings of a project.", no_args_is_help=True)
app.add_typer(new)

Query = Annotated[str, typer.Argument(help="The query, in Spark SQL.", show_default=False)]
Tables = Annotated[
    list[str],
    typer.Option(
        "--table",
        "-t",
        metavar="NAME=MODULE:ATTRIBUTE",
        help="A table: a provider, or a function without arguments that returns one. May be given several times.",
        default_factory=list,
        show_default=False,
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def headrace(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
def demo() -> None:
    """Show a table in action: its code, what Spark negotiates with it, and what that saves."""
    with _errors_reported(), _session() as ctx:
        from headrace.cli.demo import demo as play

        play(ctx, _console(at_most=100))


@app.command()
def sql(
    query: Query,
    table: Tables,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the whole result to FILE.parquet, FILE.csv, FILE.arrow, or as CSV to standard output (-).",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Print at most so many rows.")] = 50,
) -> None:
    """Run a query and print its result, or write it to a file."""
    with _errors_reported():
        write = _writer(output)
        providers = _providers(table)
        with _session(providers) as ctx:
            if write is None:
                print_rows(ctx.collect(ctx.sql(query).limit(limit + 1)), limit, _console())
            else:
                with ctx.execute_stream(query) as result:
                    typer.echo(write(result), err=True)


@app.command()
def explain(query: Query, table: Tables) -> None:
    """Show what each scan of a query would use of its table, and why not more. Nothing is run."""
    with _errors_reported():
        providers = _providers(table)
        with _session(providers) as ctx:
            typer.echo(ctx.explain(query))


@app.command()
def check(
    place: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:ATTRIBUTE", help="A provider, or a function that returns one.", show_default=False
        ),
    ],
    samples: Annotated[int, typer.Option(min=1, help="Values to try a column's filters with.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the generated filters.")] = 0,
    max_rows: Annotated[int, typer.Option(min=1, help="Read no scan further.")] = 100_000,
    writes: Annotated[
        bool, typer.Option("--writes", help="Check what it promises of writes instead: the table's rows change.")
    ] = False,
    at_least_once: Annotated[bool, typer.Option(help="Rows of a stream may come in two ranges.")] = False,
) -> None:
    """Verify what a table promises, without Spark: exit code 1 if it does not keep it all."""
    with _errors_reported():
        from headrace.testing import check_provider, check_writer

        (provider,) = _providers([f"table={place}"]).values()
        if writes:
            report = check_writer(cast(WritableProvider, provider), seed=seed, max_rows=max_rows)
        else:
            report = check_provider(
                provider, samples=samples, seed=seed, max_rows=max_rows, at_least_once=at_least_once
            )
        _print_report(report)
        raise typer.Exit(0 if report.ok else 1)


@app.command()
def doctor() -> None:
    """Look whether this machine has what Headrace needs, and run a query: exit code 1 if something is missing."""
    from headrace.cli.doctor import findings

    console = _console()
    well = True
    for finding in findings():
        well = well and finding.is_good
        mark = Text("good", "green") if finding.is_good else Text("bad ", "bold red")
        console.print(mark.append(f"  {finding.subject:<10} {finding.found}", "default"), soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"      {'':<10} {finding.remedy}", "yellow"), soft_wrap=True)
    raise typer.Exit(0 if well else 1)


@new.command()
def provider(
    name: Annotated[str, typer.Argument(help="Of the package, such as my-events.", show_default=False)],
    folder: Annotated[
        Path, typer.Option("--in", metavar="FOLDER", help="Where the package's folder is made.")
    ] = Path(),
) -> None:
    """Write a small package: a table provider, its tests, and a README. The tests pass as it stands."""
    with _errors_reported():
        try:
            written = new_provider(name, folder)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        for path in written:
            typer.echo(str(path))
        typer.echo(f"\nNext: cd {folder / name}, then read README.md and run pytest")


def provider_at(place: str) -> TableProvider:
    """The provider at ``module:attribute``: an instance, or what a callable without arguments returns.

    Raises typer.BadParameter where there is none; what the user's own code raises passes unchanged.
    """
    module_name, _, path = place.partition(":")
    if not module_name or not path:
        raise typer.BadParameter(f"{place!r} is not of the form module:attribute")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and an import of its own failed
        raise typer.BadParameter(f"there is no module {error.name!r} here or among the installed ones") from error
    for name in path.split("."):
        if not hasattr(found, name):
            raise typer.BadParameter(f"{module_name!r} has no attribute {path!r}")
        found = getattr(found, name)
    if callable(found) and not isinstance(found, TableProvider):
        if needed := _needed_arguments(found):
            raise typer.BadParameter(
                f"{place} needs {', '.join(needed)} to be called; name a provider, or a function without arguments "
                f"that returns one, such as: def table(): return {path}(...)"
            )
        found = found()
    if not isinstance(found, TableProvider):
        raise typer.BadParameter(f"{place} is a {type(found).__name__}, not a TableProvider")
    return found


def _needed_arguments(function: Any) -> list[str]:
    """The names of the arguments without which it cannot be called."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some builtins have no signature
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in optional]


def _providers(options: list[str]) -> dict[str, TableProvider]:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    providers: dict[str, TableProvider] = {}
    for option in options:
        name, equals, place = option.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"--table takes name=module:attribute, not {option!r}")
        if name in providers:
            raise typer.BadParameter(f"--table {name}=... is given twice")
        providers[name] = provider_at(place)
    return providers


def _writer(output: str | None) -> Callable[[Batches], str] | None:
    try:
        return None if output is None else writer_to(output)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@contextlib.contextmanager
def _session(providers: dict[str, TableProvider] | None = None) -> Iterator[SessionContext]:
    console = _console()
    with console.status("Starting Spark …") if console.is_terminal else contextlib.nullcontext():
        try:
            from headrace.spark.session import SessionContext
        except ImportError as error:  # says what to install
            _fail(str(error))
        context = SessionContext()
    with context:
        for name, provider in (providers or {}).items():
            context.register_table(name, provider)
        yield context


@contextlib.contextmanager
def _errors_reported() -> Iterator[None]:
    """Turns what goes wrong in the user's query or code into a message and exit code 1."""
    try:
        yield
    except HeadraceError as error:
        _fail(str(error))
    except OSError as error:
        _fail(str(error))
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        line = None
        if "pyspark" in sys.modules:
            from headrace.spark.console import one_line

            line = one_line(error)
        _fail(f"{type(error).__name__}: {error}\n\n{_user_traceback(error)}" if line is None else line)


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {message.rstrip()}", err=True)
    raise typer.Exit(1)


def _user_traceback(error: BaseException) -> str:
    """From the first frame that is neither Headrace's command line nor the import machinery."""
    tb: TracebackType | None = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        file = tb.tb_frame.f_code.co_filename
        if file != __file__ and "importlib" not in file:
            break
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(error), error, tb))


def _print_report(report: Report) -> None:
    styles = {"kept": "green", "broken": "bold red", "unchecked": "yellow", "error:": "red", "warning:": "yellow"}
    summary, *lines = str(report).splitlines()
    console = _console()
    for line in lines:
        text = Text(line.strip())
        text.stylize(styles.get(first := text.plain.partition(" ")[0], "default"), 0, len(first))
        console.print(Padding(text, (0, 0, 0, len(line) - len(line.lstrip())), expand=False))
    console.print(Text(summary, "bold green" if report.ok else "bold red"))


def _console(at_most: int | None = None) -> Console:
    console = Console()
    width = console.width if console.is_terminal or "COLUMNS" in os.environ else _WIDTH_OFF_TERMINAL
    return Console(width=width if at_most is None else min(width, at_most))
