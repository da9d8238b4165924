// SPDX-License-Identifier: MIT
/*
 * Runs files through the fuzz target of the record reader, in a build with the address and
 * undefined sanitizers: the corpus that test_hostile.py makes, or what a fuzzer found.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	static uint8_t bytes[8 << 20];

	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "re");
		size_t size;

		if (!file) {
			perror(argv[i]);
			return 1;
		}
		size = fread(bytes, 1, sizeof(bytes), file);
		fclose(file);
		LLVMFuzzerTestOneInput(bytes, size);
	}
	printf("%d files\n", argc - 1);
	return 0;
}
