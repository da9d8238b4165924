/* SPDX-License-Identifier: MIT
 *
 * The kernels of our own tools and tests, as PTX text: loaded with cuModuleLoadData, compiled by
 * the driver, executed by name by the simulated one. Written by hand, so that no CUDA compiler is
 * needed to build.
 */
#ifndef SLIPSTREAM_KERNELS_H
#define SLIPSTREAM_KERNELS_H

/* spin(u64 ns): one thread busy until the GPU's nanosecond clock has advanced by ns. */
static const char KERNELS_SPIN[] = ".version 6.4\n"
				   ".target sm_50\n"
				   ".address_size 64\n"
				   ".visible .entry spin(.param .u64 ns)\n"
				   "{\n"
				   "\t.reg .pred %p;\n"
				   "\t.reg .b64 %length, %begin, %now;\n"
				   "\tld.param.u64 %length, [ns];\n"
				   "\tmov.u64 %begin, %globaltimer;\n"
				   "again:\n"
				   "\tmov.u64 %now, %globaltimer;\n"
				   "\tsub.u64 %now, %now, %begin;\n"
				   "\tsetp.lt.u64 %p, %now, %length;\n"
				   "\t@%p bra again;\n"
				   "\tret;\n"
				   "}\n";

#endif
