import { bounded } from "@berth/protocol/bounded"
import { MARK_VARIABLE } from "@berth/protocol/process-mark"
import { abortable } from "./abortable.ts"
import { run } from "./run.ts"
import { timeoutSignal } from "./timeout-signal.ts"

/** The time to read one group of environments. Milliseconds suffice, but a busy host starts programs late. */
const READ_WITHIN_MS = 1_000
const READS_AT_ONCE = 8
/** The environments of one group: few enough that the output of grep is never cut off. */
const GROUP = 512
/** A group that cannot be read is read again in this many parts. */
const PARTS = 16
/** The memory of grep. It keeps a whole variable in memory, and a process can give itself one of any length. */
const GREP_BYTES = 64 * 1024 * 1024

export interface MarksToFind {
  readonly pids: readonly number[]
  /** Processes that could not be read before: each is read alone, so that none delays the others. */
  readonly apart: ReadonlySet<number>
  /** The form of the marks. */
  readonly marks: string
  readonly signal: AbortSignal
}

export interface MarksFound {
  /** The marks of this form, by pid. */
  readonly marks: ReadonlyMap<number, string>
  /** The processes whose environment cannot be read in time. */
  readonly unread: ReadonlySet<number>
}

/**
 * Finds the processes whose mark, in their environment, has this form. The environment lies in a process's own memory:
 * the process can make its reader wait, or read without end. So other programs read it, with bounds, and a process that
 * cannot be read hides its own mark alone.
 */
export const findMarks = async ({
  pids,
  apart,
  marks: form,
  signal,
}: MarksToFind): Promise<MarksFound> => {
  const marks = new Map<number, string>()
  const unread = new Set<number>()
  const inTurn = bounded(READS_AT_ONCE)
  const read = async (group: readonly number[]): Promise<void> => {
    const found = await inTurn(() => readGroup(group, form, signal))
    if (found !== undefined) for (const [pid, mark] of found) marks.set(pid, mark)
    else if (group.length === 1) for (const pid of group) unread.add(pid)
    else await Promise.all(partsOf(group, Math.ceil(group.length / PARTS)).map(read))
  }
  const together = pids.filter((pid) => !apart.has(pid))
  const alone = pids.filter((pid) => apart.has(pid))
  await Promise.all([...partsOf(together, GROUP), ...partsOf(alone, 1)].map(read))
  return { marks, unread }
}

const partsOf = (pids: readonly number[], size: number): number[][] =>
  Array.from({ length: Math.ceil(pids.length / size) }, (_, index) =>
    pids.slice(index * size, (index + 1) * size),
  )

/** Reads a group of environments with one program. Returns undefined if it did not read all of them. */
const readGroup = async (
  pids: readonly number[],
  form: string,
  signal: AbortSignal,
): Promise<[number, string][] | undefined> => {
  signal.throwIfAborted()
  const inTime = AbortSignal.any([signal, timeoutSignal(READ_WITHIN_MS)])
  const paths = pids.map((pid) => `/proc/${pid}/environ`)
  // -s: a process that has ended meanwhile is no failure.
  const grep = ["grep", "-m1", "-aosHzE", "-e", `^${MARK_VARIABLE}=(${form})$`, "--", ...paths]
  const reading = run(["prlimit", `--as=${GREP_BYTES}`, ...grep], { signal: inTime })
  try {
    const { status, stdout, stderr } = await abortable(reading, inTime)
    return status !== null && stderr === "" ? marksIn(stdout) : undefined
  } catch (thrown) {
    if (signal.aborted || !inTime.aborted) throw thrown
    return undefined
  }
}

const marksIn = (output: string): [number, string][] =>
  output.split("\0").flatMap((line) => {
    const [, pid, mark] = /^\/proc\/(\d+)\/environ:[^=]*=(.*)$/.exec(line) ?? []
    return pid === undefined || mark === undefined ? [] : [[Number(pid), mark] as const]
  }) as [number, string][]
