import { spawn } from "node:child_process"
import { readFile } from "node:fs/promises"
import type { User } from "../user.ts"

/** In the environment of every process that the supervisor starts, and so of their descendants. */
export const MARK_VARIABLE = "BERTH_PROCESS"

/** A mark of its own for each start. It need not be secret: who forges one is only ended with that tree. */
export const newMark = (): string => `${process.pid}-${process.hrtime.bigint().toString(36)}`

/**
 * A process that holds its memory's lock keeps whoever reads its environment waiting; those that answer do
 * so within microseconds.
 */
const READ_LIMIT_MS = 500
/** A node that starts and reads some files, on a busy machine. */
const HELPER_LIMIT_MS = 2_000

/**
 * Which of these processes carry the mark. The kernel shows an environment to its own user and to those who
 * may trace; a supervisor that may not asks through a helper that runs as the user.
 */
export const findMarked = async (
  pids: readonly number[],
  mark: string,
  user: User | undefined,
): Promise<ReadonlySet<number>> => {
  if (pids.length === 0) return new Set()
  const limit = AbortSignal.timeout(READ_LIMIT_MS)
  const looks = await Promise.all(
    pids.map(async (pid) => ({ pid, saw: await look(pid, mark, limit) })),
  )
  const marked = looks.filter(({ saw }) => saw === "mark").map(({ pid }) => pid)
  const hidden = looks.filter(({ saw }) => saw === "hidden").map(({ pid }) => pid)
  const shown = user && hidden.length > 0 ? await lookAs(user, hidden, mark) : []
  return new Set([...marked, ...shown])
}

type Look = "mark" | "no mark" | "hidden"

const look = async (pid: number, mark: string, limit: AbortSignal): Promise<Look> => {
  try {
    const environment = await Promise.race([readFile(`/proc/${pid}/environ`, "latin1"), end(limit)])
    return carries(environment, mark) ? "mark" : "no mark"
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException
    return code === "EACCES" || code === "EPERM" ? "hidden" : "no mark"
  }
}

const end = (limit: AbortSignal): Promise<never> =>
  new Promise((_, reject) =>
    limit.addEventListener("abort", () => reject(limit.reason), { once: true }),
  )

const carries = (environment: string, mark: string): boolean =>
  `\0${environment}\0`.includes(`\0${MARK_VARIABLE}=${mark}\0`)

/** Runs in the helper: prints those of the given pids whose environment holds the text. */
const HELPER = `
const [text, ...pids] = process.argv.slice(1)
for (const pid of pids) {
  try {
    const environment = require("node:fs").readFileSync("/proc/" + pid + "/environ", "latin1")
    if (("\\0" + environment + "\\0").includes("\\0" + text + "\\0")) console.log(pid)
  } catch {}
}`

const lookAs = (user: User, pids: readonly number[], mark: string): Promise<number[]> =>
  new Promise((resolve) => {
    const helper = spawn(
      process.execPath,
      ["-e", HELPER, `${MARK_VARIABLE}=${mark}`, ...pids.map(String)],
      {
        ...{ uid: user.uid, gid: user.gid, cwd: "/", env: {} },
        stdio: ["ignore", "pipe", "ignore"],
        timeout: HELPER_LIMIT_MS,
        killSignal: "SIGKILL",
      },
    )
    let said = ""
    helper.stdout.on("data", (chunk: Buffer) => {
      said += chunk.toString("latin1")
    })
    helper.on("error", () => resolve([]))
    helper.on("close", () => resolve(said.split("\n").filter(Boolean).map(Number)))
  })
