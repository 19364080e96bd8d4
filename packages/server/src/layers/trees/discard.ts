import { runProgram } from "../programs.ts"

/** Deletes a tree, however large; never what happens to be mounted in it. */
export const discardTree = (directory: string, signal?: AbortSignal): Promise<void> =>
  runProgram(["rm", "-rf", "--one-file-system", "--", directory], { signal, on: directory })
