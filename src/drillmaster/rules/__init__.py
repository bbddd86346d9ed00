"""Laws that more than one part carries out: pure functions, each with one table of cases in `tests/rules/`.

What stands here is the only text of a law. Another carrier (a script in a store, a query, an example in another
language) is tested against the same table.
"""
