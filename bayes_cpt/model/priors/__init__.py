"""The priors of a specification: families, tables that users write, draws."""
