/** The codes by which the kernel refuses a file operation. */

export const hasCode = (thrown: unknown, code: string): boolean =>
  thrown instanceof Error && (thrown as NodeJS.ErrnoException).code === code

/** Runs synchronous work on a file; undefined if the file does not exist. */
export const orMissing = <Result>(work: () => Result): Result | undefined => {
  try {
    return work()
  } catch (thrown) {
    if (hasCode(thrown, "ENOENT")) return undefined
    throw thrown
  }
}

export const isFull = (thrown: unknown): boolean =>
  hasCode(thrown, "ENOSPC") || hasCode(thrown, "EDQUOT")
