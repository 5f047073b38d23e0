"""Campaigns, statistics and reports over perdure-native.

Data flows one way: these modules start the C++ programs, read the JSON they print, and write
tables, verdicts and a report. Nothing flows back.
"""

__version__ = "0.1.0"
