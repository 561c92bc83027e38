# nbdsync: the command.
