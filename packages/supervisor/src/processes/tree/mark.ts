import { setTimeout as delay } from "node:timers/promises"
import { bounded } from "@berth/protocol/bounded"
import type { PromptId } from "@berth/protocol/ids"
import { MARK_VARIABLE, markOf, type Origin } from "@berth/protocol/process-mark"
import { becomingUser, OWN_PROGRAM_FLAGS } from "../own-program.ts"
import { spawn } from "../spawn.ts"
import type { User } from "../user.ts"
import { isRunning, parseStat } from "./proc.ts"
import { readStart } from "./read-start.ts"

/** Makes a mark for each start. */
export const newMark = (origin?: Origin, prompt?: PromptId): string =>
  markOf(`${process.pid}-${process.hrtime.bigint().toString(36)}`, origin, prompt)

/**
 * Time limit for reading an environment. A process that holds its memory's lock makes the reader wait; others are read
 * within microseconds.
 */
const READ_LIMIT_MS = 500
/**
 * The limit is counted in ticks: while this process itself is held up, at most one passes. Results that have arrived by
 * then take some turns of the event loop.
 */
const READ_LIMIT_TICKS = 10
/**
 * Only the start of an environment is read: about what the arguments and the environment of a program may take together. A
 * process can make an environment without end, and the memory of whoever reads it all.
 */
const MAX_ENVIRONMENT_BYTES = 2 * 1024 * 1024
/** How many files are read at once, for all looks together: each takes a descriptor, and those are limited. */
const READS_AT_ONCE = 32
/**
 * How often an empty environment is read again. While a process execs its environment reads as empty: the old one is
 * gone, and the new one is not there yet. On a busy machine that takes many looks.
 */
const LOOK_AGAIN_MS = 2
const LOOKS = 100
/**
 * How many looks in a row must find that a program has an environment, and that it reads as empty: its memory is gone
 * then. An exec that ends between the two reads of a look shows the same once.
 */
const HIDDEN_LOOKS = 10
/** Time limit of the helper: node starts and reads some files, on a busy machine. */
const HELPER_LIMIT_MS = 2_000

export interface Marks {
  /** Pids with the mark. */
  readonly marked: ReadonlySet<number>
  /** Pids of processes that could not be read: they ended, or an exec held them up. */
  readonly gone: ReadonlySet<number>
}

/** Finds which of these processes have the mark. */
export const findMarked = async (
  pids: readonly number[],
  mark: string,
  user: User | undefined,
): Promise<Marks> => {
  const { marks, gone } = await readMarks(pids, user)
  return { marked: new Set(pids.filter((pid) => marks.get(pid) === mark)), gone }
}

export interface MarksRead {
  /** Marks by pid. Processes without one are absent. */
  readonly marks: ReadonlyMap<number, string>
  readonly gone: ReadonlySet<number>
}

/**
 * Reads the marks of processes. The kernel shows an environment to the process's own user and to processes that may
 * trace it. A supervisor that may not trace reads through a helper that runs as the user.
 */
export const readMarks = async (
  pids: readonly number[],
  user: User | undefined,
): Promise<MarksRead> => {
  if (pids.length === 0) return NOTHING
  const looks = await Promise.all(pids.map(async (pid) => [pid, await look(pid)] as const))
  const those = (which: Look) => looks.filter(([, saw]) => saw === which).map(([pid]) => pid)
  const hidden = those("hidden")
  const shown = user && hidden.length > 0 ? await lookAs(user, hidden) : NOTHING
  const seen = looks.flatMap(([pid, saw]) =>
    typeof saw === "object" ? [[pid, saw.mark] as const] : [],
  )
  return {
    marks: new Map([...seen, ...shown.marks]),
    gone: new Set([...those("gone"), ...shown.gone]),
  }
}

const NOTHING: MarksRead = { marks: new Map(), gone: new Set() }

type Look = { readonly mark: string } | "no mark" | "hidden" | "gone"

const look = async (pid: number): Promise<Look> => {
  let hiddenLooks = 0
  try {
    for (let looks = 1; looks <= LOOKS; looks++) {
      const environment = await read(`/proc/${pid}/environ`)
      if (environment !== "") return markIn(environment)
      const stat = await read(`/proc/${pid}/stat`)
      if (!isRunning(parseStat(stat))) return "gone"
      const environmentIs = environmentIn(stat)
      hiddenLooks = environmentIs === "there" ? hiddenLooks + 1 : 0
      if (environmentIs === "none" || hiddenLooks === HIDDEN_LOOKS) return "no mark"
      await delay(LOOK_AGAIN_MS)
    }
    return "gone"
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException
    if (code === "ENOENT" || code === "ESRCH") return "gone"
    return code === "EACCES" || code === "EPERM" ? "hidden" : "no mark"
  }
}

/**
 * Tells from its start and end addresses whether an environment that reads as empty is there. They are equal where there is none, and
 * also while an exec copies the environment, which on a busy machine may take long: the program's code has no address
 * yet then. Both are 0 if the kernel does not tell them.
 */
export const environmentIn = (stat: string): "none" | "there" | "unknown" => {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  if (fields[23] === "0" || fields[47] === "0") return "unknown"
  return fields[47] === fields[48] ? "none" : "there"
}

const inTurn = bounded(READS_AT_ONCE)

const read = (path: string): Promise<string> =>
  inTurn(async () => {
    const { promise: expired, reject } = Promise.withResolvers<never>()
    const over = new AbortController()
    let ticks = 0
    const limit = setInterval(() => {
      if (++ticks === READ_LIMIT_TICKS) reject(new Error("the read takes too long"))
    }, READ_LIMIT_MS / READ_LIMIT_TICKS)
    try {
      const reading = readStart(path, { maxBytes: MAX_ENVIRONMENT_BYTES, until: over.signal })
      return await Promise.race([reading, expired])
    } finally {
      clearInterval(limit)
      over.abort()
    }
  })

const markIn = (environment: string): Look => {
  const own = `${MARK_VARIABLE}=`
  const found = environment.split("\0").find((variable) => variable.startsWith(own))
  return found === undefined ? "no mark" : { mark: found.slice(own.length) }
}

/** The helper's program. Does what `look` does: prints the pids with their marks, and the pids that are gone. */
const HELPER = `
const { closeSync, openSync, readSync } = require("node:fs")
const [own, looks, mostHidden, lookAgainMs, maxBytes, ...pids] = process.argv.slice(1)
const bytes = Buffer.alloc(Number(maxBytes))
const read = (pid, name) => {
  const file = openSync("/proc/" + pid + "/" + name)
  try {
    let length = 0
    for (let count; (count = readSync(file, bytes, length, bytes.length - length, null)) > 0; ) length += count
    return bytes.toString("latin1", 0, length)
  } finally {
    closeSync(file)
  }
}
const environmentIn = (stat) => {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  if (fields[23] === "0" || fields[47] === "0") return "unknown"
  return fields[47] === fields[48] ? "none" : "there"
}
const environmentOf = (pid) => {
  let hiddenLooks = 0
  for (let look = 1; look <= looks; look++) {
    const environment = read(pid, "environ")
    if (environment !== "") return environment
    const stat = read(pid, "stat")
    if (/\\) [ZX] [^)]*$/.test(stat)) throw { code: "ESRCH" }
    const environmentIs = environmentIn(stat)
    hiddenLooks = environmentIs === "there" ? hiddenLooks + 1 : 0
    if (environmentIs === "none" || hiddenLooks === Number(mostHidden)) return ""
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(lookAgainMs))
  }
  throw { code: "ESRCH" }
}
for (const pid of pids) {
  try {
    const found = environmentOf(pid).split("\\0").find((variable) => variable.startsWith(own))
    if (found && /^[0-9a-z-]+$/.test(found.slice(own.length))) console.log("mark", pid, found.slice(own.length))
  } catch ({ code }) {
    if (code === "ENOENT" || code === "ESRCH") console.log("gone", pid)
  }
}`

const lookAs = (user: User, pids: readonly number[]): Promise<MarksRead> =>
  new Promise((resolve) => {
    const numbers = [LOOKS, HIDDEN_LOOKS, LOOK_AGAIN_MS, MAX_ENVIRONMENT_BYTES, ...pids]
    const helper = spawn(
      process.execPath,
      [
        ...OWN_PROGRAM_FLAGS,
        ...["-e", becomingUser(user, HELPER), `${MARK_VARIABLE}=`, ...numbers.map(String)],
      ],
      {
        cwd: "/",
        env: {},
        stdio: ["ignore", "pipe", "ignore"],
        timeout: HELPER_LIMIT_MS,
        killSignal: "SIGKILL",
      },
    )
    let said = ""
    helper.stdout.on("data", (chunk: Buffer) => {
      said += chunk.toString("latin1")
    })
    const those = (which: string) =>
      said
        .split("\n")
        .map((line) => line.split(" "))
        .filter(([what]) => what === which)
        .map(([, pid, mark = ""]) => [Number(pid), mark] as const)
    helper.on("error", () => resolve(NOTHING))
    helper.on("close", () =>
      resolve({ marks: new Map(those("mark")), gone: new Set(those("gone").map(([pid]) => pid)) }),
    )
  })
