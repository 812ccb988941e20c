"""Task files that come with cutegen: whole suites to measure on."""
