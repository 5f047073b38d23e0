"""The command line: one module per group of commands. stdout carries results, stderr the rest."""
