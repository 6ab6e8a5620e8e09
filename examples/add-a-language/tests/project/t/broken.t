use strict;
use warnings;
use Test::More;
my $x = ;
