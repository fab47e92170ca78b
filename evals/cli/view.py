"""Look at jobs, trials and training runs in the browser, while they grow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from harness.export.retokenize import Tokenizer


def view(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="A folder of jobs; or a job, a trial or a training run in one.")
    ] = Path("jobs"),
    runs: Annotated[
        list[Path] | None, typer.Option("--run", metavar="DIR", help="A training run elsewhere (repeatable).")
    ] = None,
    port: Annotated[int, typer.Option(help="0 is any free one.", min=0, max=65535)] = 0,
    tokenizer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Shows sampled tokens as text: a name, or a local folder.")
    ] = None,
    categories: Annotated[Path | None, typer.Option("--categories", help="A TOML file of further categories.")] = None,
) -> int:
    """Serve a local web page of a folder of jobs; it reads only, and nobody else on the network reaches it.

    The address that is printed holds the key, once. Ends with Ctrl-C.
    """
    from evals.view.extra import require_extra

    require_extra()
    from evals.categories import load_categories
    from evals.view.place import place_of
    from evals.view.server import open_port, run
    from evals.view.site import Site
    from evals.view.training import Training

    place = place_of(folder)
    known = load_categories(categories)
    reader: Tokenizer | None = None
    if tokenizer is not None:
        from harness.export.retokenize import load_tokenizer

        reader = load_tokenizer(tokenizer, option="--tokenizer", chat=False)
    listener = open_port(port)
    try:
        site = Site(place.folder, Training(place.folder, [*place.runs, *(runs or ())]), known, reader)

        def greet(address: str) -> None:
            typer.echo(address)
            typer.echo(f"index: {site.index.place}\nserving until Ctrl-C", err=True)

        run(site, listener, place.path, greet)
    except BaseException:
        listener.close()
        raise
    return 0
