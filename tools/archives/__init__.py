"""Where an archive's rows are kept: in a file, or in a database that machines share."""
