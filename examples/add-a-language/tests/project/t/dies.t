use strict;
use warnings;
use Test::More;

ok(1, 'before');
die "out of here\n";
