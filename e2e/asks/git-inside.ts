import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { serveCredentials } from "@berth/supervisor/bridge/credentials"
import { gitEnvironment } from "@berth/supervisor/bridge/git-environment"
import { expect, onTestFinished } from "vitest"
import type { bothEnds } from "./both-ends.ts"
import { filesWith } from "./leaks.ts"

type Ends = Awaited<ReturnType<typeof bothEnds>>

const HELPER = join(import.meta.dirname, "../../packages/supervisor/src/credential-helper.ts")

/** Gives the host's git this password for these addresses, by a helper that stores it in a file. */
export const storePassword = (
  { host }: Pick<Ends, "host">,
  urls: readonly string[],
  password: string,
): void => {
  const stored = join(host, "stored")
  const lines = urls.map((url) => url.replace("//", `//u:${password}@`))
  writeFileSync(stored, `${lines.join("\n")}\n`, { mode: 0o600 })
  writeFileSync(
    join(host, ".gitconfig"),
    `[credential]\n\thelper = store --file=${JSON.stringify(stored)}\n`,
  )
}

/** Serves credentials inside, and returns a function that runs git there as an agent would, to its end. */
export const openGitInside = async ({
  inside,
  hostRequests,
}: Pick<Ends, "inside" | "hostRequests">) => {
  const socket = join(inside, "git", "credentials.sock")
  const credentials = await serveCredentials({ path: socket, user: undefined, hostRequests })
  onTestFinished(() => credentials.close())
  const home = join(inside, "home")
  mkdirSync(home)
  const run = async (
    args: readonly string[],
    { cwd = "/", env = {} }: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
  ) => {
    const child = spawn("git", args, {
      cwd,
      env: {
        PATH: process.env.PATH,
        HOME: home,
        GIT_TERMINAL_PROMPT: "0",
        ...env,
        ...gitEnvironment({ node: process.execPath, helper: HELPER, socket }),
      },
      stdio: ["ignore", "ignore", "pipe"],
    })
    const [said, [status]] = await Promise.all([text(child.stderr), once(child, "close")])
    return { status, said }
  }
  return { socket, home, run }
}

/** Expects that git was granted the password, which stands in no process, file, event or log. */
export const expectNoTrace = async (
  { inside, journal, events, lines, seen }: Ends & { readonly seen: readonly string[][] },
  password: string,
): Promise<void> => {
  expect(seen.length).toBeGreaterThan(0)
  expect(seen.flat()).toEqual([])
  await journal.append({ type: "warning", message: "last" })
  await expect.poll(() => events.length).toBe(1)
  expect(filesWith(inside, password)).toEqual([])
  expect(JSON.stringify(events)).not.toContain(password)
  expect(lines.join()).toContain("credential.grant ok")
  expect(lines.join()).not.toContain(password)
}
