#!/usr/bin/env perl
# The CUDA plug-in as a file: what it exports and asks for, that it loads where no driver is; and each kernel for each
# architecture that nvcc knows, warnings being errors: minutes, so with RINGSIDE_LONG=1 alone.
use strict;
use warnings;
use DynaLoader;
use Test::More;

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my $so  = "$out/cuda.so";
plan skip_all => "$so is not built: no nvcc, or a build for sanitizers, which have fake_cuda.so" if !-e $so;

my @exports = qw(ncclProfiler_v4 ncclProfiler_v5 ncclProfiler_v6 ringside_device_backend_1 ringside_nccl_1);

sub symbols {
    my ($which, $file) = @_;
    return sort map { (split ' ', $_)[-1] } grep { /\S/ } split /\n/, `nm -D $which '$file'`;
}

SKIP: {
    skip 'no nm: install binutils', 4 if `nm --version 2>/dev/null` eq '';
    is_deeply([ symbols('--defined-only', $so) ], \@exports,
        'cuda.so exports its tables and NCCL\'s profiler, nothing else');
    is_deeply([ symbols('--defined-only', "$out/fake_cuda.so") ], \@exports, 'fake_cuda.so exports the same')
        if ok(-e "$out/fake_cuda.so", 'fake_cuda.so is built beside it');
    my @foreign = grep { !/@(GLIBC|GLIBCXX|CXXABI|GCC)_/ && !/^(_ITM_\w+|__gmon_start__|__cxa_finalize)$/ }
                  symbols('--undefined-only', $so);
    is_deeply(\@foreign, [], 'it asks for nothing but the C and C++ libraries\' functions') or diag(join ' ', @foreign);
}

SKIP: {
    my @needed = `readelf -d '$so' 2>/dev/null` =~ /./ ? map { /NEEDED.*\[(.*)\]/ ? $1 : () } `readelf -d '$so'` : ();
    skip 'no readelf: install binutils', 1 if !@needed;
    my @strange = grep { !/^(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so\.\d+$|^ld-linux/ } @needed;
    is_deeply(\@strange, [], 'it needs no library of NVIDIA\'s to load') or diag(join ' ', @strange);
}

my $library = DynaLoader::dl_load_file($so, 0);
ok($library, 'it loads, whether there is a driver or not') or diag(DynaLoader::dl_error());
ok($library && DynaLoader::dl_find_symbol($library, 'ringside_device_backend_1'), 'its table is found in it');

SKIP: {
    skip 'each kernel for each architecture takes minutes: set RINGSIDE_LONG=1', 1 if !$ENV{RINGSIDE_LONG};
    my $said = `make -k -j"\$(nproc)" cuda-all 2>&1`;
    my @wrong = grep { /error|warning|\*\*\*/ && !/-Werror/ } split /\n/, $said;
    is($?, 0, 'each kernel compiles for each architecture without a warning')
        or diag(join "\n", @wrong[ 0 .. ($#wrong < 20 ? $#wrong : 20) ]);
}
done_testing();
