"""What tests read in the source."""

import ast


def list_docstring_ids(tree):
    """Ids of the constants that are docstrings: for programmers, not for people who use the app."""
    return {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
