use strict;
use warnings;
use Test::More;

is(1 + 1, 2, 'adds');
is(1 + 1, 3, 'adds wrongly');
subtest 'division' => sub {
    plan tests => 2;
    is(4 / 2, 2, 'even');
    ok(0, 'odd (with "quotes")');
};
ok(1, 'later # SKIP no net');
done_testing();
