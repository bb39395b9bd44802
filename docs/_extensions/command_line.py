"""The directive ``commands``: what `itofit COMMAND --help` says of every command, as sections of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from itofit import cli


class Commands(SphinxDirective):
    """Sections for all commands, in the order of the help."""

    def run(self) -> list[nodes.Node]:
        """Make them from the program itself."""
        for file in Path(cli.__file__).parent.glob("*.py"):
            self.env.note_dependency(str(file))
        program: Any = typer.main.get_command(cli.app)
        context = program.context_class(program, info_name="itofit")
        commands = [program.get_command(context, name) for name in program.list_commands(context)]
        return [self.section(command, context) for command in commands]

    def section(self, command: Any, parent: Any) -> nodes.section:  # noqa: ANN401
        """One command: what it does, how it is called, its arguments and options."""
        context = command.context_class(command, info_name=command.name, parent=parent)
        title = f"itofit {command.name}"
        section = nodes.section(ids=[nodes.make_id(title)], names=[title])
        section += nodes.title(title, title)
        section += [nodes.paragraph("", " ".join(text.split())) for text in command.help.split("\n\n")]
        usage = " ".join([title, *command.collect_usage_pieces(context)]).replace("{", "").replace("}", "")
        section += nodes.literal_block(usage, usage, language="text")
        records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
        section += nodes.definition_list(
            "",
            *(
                nodes.definition_list_item(
                    "",
                    nodes.term("", "", nodes.literal("", written)),
                    nodes.definition("", nodes.paragraph("", meaning)),
                )
                for written, meaning in records
            ),
        )
        self.state.document.note_implicit_target(section)
        return section


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
