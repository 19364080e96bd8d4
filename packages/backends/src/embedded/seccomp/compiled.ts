import { readFile } from "node:fs/promises"
import { join } from "node:path"

/** The size of an instruction of the kernel's filter machine. */
const INSTRUCTION_BYTES = 8

/**
 * Reads the filter in the form that the kernel takes, as crun left it beside a container that it created. Compiling it
 * is a quarter of the time that crun needs for a container; given back as an annotation, it lets crun skip that.
 * Undefined where the runtime leaves none: then every creation compiles the profile again.
 */
export const readCompiledFilter = async (
  runtimeRoot: string,
  container: string,
): Promise<string | undefined> => {
  try {
    const filter = await readFile(join(runtimeRoot, container, "seccomp.bpf"))
    const whole = filter.length > 0 && filter.length % INSTRUCTION_BYTES === 0
    return whole ? filter.toString("base64") : undefined
  } catch {
    return undefined
  }
}

/**
 * The annotation that gives crun the compiled filter. A crun that does not know it compiles the profile, which stands
 * in the config as well.
 */
export const compiledAnnotation = (filter: string | undefined): Record<string, string> =>
  filter === undefined ? {} : { "run.oci.seccomp_bpf_data": filter }

/** Remembers the compiled filter of the first container, for all that follow. */
export interface CompiledFilter {
  readonly current: string | undefined
  learnFrom(container: string): Promise<void>
}

export const openCompiledFilter = (runtimeRoot: string): CompiledFilter => {
  let current: string | undefined
  return {
    get current() {
      return current
    },
    async learnFrom(container) {
      current ??= await readCompiledFilter(runtimeRoot, container)
    },
  }
}
