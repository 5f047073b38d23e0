"""The report: one HTML page with figures. Needs the packages of `perdure[report]`."""
