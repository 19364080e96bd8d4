import { execFileSync } from "node:child_process"
import { chmodSync, cpSync, globSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { join } from "node:path"
import { furtherCases } from "@berth/testing/further-cases"
import { afterAll, beforeAll, expect, it } from "vitest"
import { giveToolbox } from "../toolboxes/give.ts"
import { type Answer, type Meanwhile, sitAtBash } from "./person.ts"
import { keepScreen } from "./screens.ts"

const ROOT = join(import.meta.dirname, "../..")

/** Covers the start of an engine, a toolbox, boots, and starts of agents, beside other tests. */
const DEADLINE_MS = 180_000

export const CTRL_C = "\x03"

/** A newcomer at a terminal, in a home of their own. */
export interface Newcomer {
  /** The current folder when a terminal opens. */
  readonly home: string
  /** The server's data directory. */
  readonly dataDir: string
  /** Types a line, which has to end with this status, and returns the text that the screen showed for it. */
  sees(line: string, options?: Expected): Promise<string>
}

interface Expected {
  /** The exit status of the line. Default: 0. */
  readonly status?: number
  readonly meanwhile?: Meanwhile
}

export interface Machine {
  /** Adds a test that types at a terminal of its own, whose screen is kept as text by that name. */
  readonly journey: Journey
  /** Like `journey`, but only whole runs have it: others prove nearly as much. The report says so. */
  readonly furtherJourney: Journey
}

type Journey = (name: string, title: string, steps: (newcomer: Newcomer) => Promise<void>) => void

export interface Backend {
  readonly name: "embedded" | "docker"
  /** Flags of `berth serve`, once they are known. */
  readonly open: () => Promise<readonly string[]>
}

/** A fresh machine for the tests of one block: a clone, a home with nothing in it, and one server for all journeys. */
export const useMachine = ({ name: backend, open }: Backend): Machine => {
  let base = ""
  const at = (...names: readonly string[]) => join(base, ...names)
  let takeToolbox = async () => {}
  let first: Window | undefined

  const openWindow = async (): Promise<Window> => {
    const { PATH, NODE_COMPILE_CACHE, NODE_EXTRA_CA_CERTS } = process.env
    const person = sitAtBash({
      PATH: `${at("home/berth/bin")}:${PATH}`,
      HOME: at("home"),
      NODE_COMPILE_CACHE,
      // In the place of /var/lib and /etc, which all tests of this machine would share.
      XDG_STATE_HOME: at("state"),
      XDG_CONFIG_HOME: at("config"),
      BERTH_PORT: "0",
      // The screens are kept as text.
      NO_COLOR: "1",
      // The machine's access to its registry, and its cache of packages.
      NODE_EXTRA_CA_CERTS,
      NPM_CONFIG_USERCONFIG: join(homedir(), ".npmrc"),
      NPM_CONFIG_CACHE: join(homedir(), ".npm"),
    })
    await person.run("stty cols 500; cd")
    return person
  }

  beforeAll(async () => {
    base = mkdtempSync(join(tmpdir(), "berth-newcomer-"))
    // Sandboxes have their files below it, and their users have no rights outside.
    chmodSync(base, 0o711)
    for (const directory of ["home", "state", "state/berth"])
      mkdirSync(at(directory), { mode: 0o711 })
    cloneTo(at("home/berth"))
    const flags = await open()
    takeToolbox = await giveToolbox(at("state/berth"))
    first = await openWindow()
    await first.run(`berth ${["serve", ...flags].join(" ")} &`)
  }, DEADLINE_MS)

  afterAll(async () => {
    try {
      if (first !== undefined) {
        await first.run("berth rm --all --force")
        await first.run("kill %1; wait")
        keepScreen(`serve-${backend}`, first.screen())
        await first.close()
      }
    } finally {
      await takeToolbox()
      rmSync(base, { recursive: true, force: true })
    }
  }, DEADLINE_MS)

  const journeyBy =
    (register: (title: string, work: () => Promise<void>, deadlineMs: number) => void): Journey =>
    (name, title, steps) =>
      register(
        title,
        async () => {
          const window = await openWindow()
          const sees = async (line: string, { status = 0, meanwhile }: Expected = {}) => {
            const answer: Answer = await window.told(line, meanwhile)
            expect(answer, line).toMatchObject({ status })
            return answer.shown
          }
          try {
            await steps({ home: at("home"), dataDir: at("state/berth"), sees })
          } finally {
            keepScreen(`${name}-${backend}`, window.screen())
            await window.close()
          }
        },
        DEADLINE_MS,
      )
  return {
    journey: journeyBy(it),
    furtherJourney: journeyBy(
      furtherCases(`further journeys of a newcomer, ${backend}`, { inPart: true }),
    ),
  }
}

type Window = ReturnType<typeof sitAtBash>

/**
 * Clones this repository, and brings into the clone the files that `npm install` and `npm run build` would make there: an
 * install of its own takes minutes and a gigabyte. The builds are copied, since `npm pack` follows no links.
 */
const cloneTo = (checkout: string): void => {
  execFileSync("git", ["clone", "--quiet", ROOT, checkout])
  symlinkSync(join(ROOT, "node_modules"), join(checkout, "node_modules"))
  for (const built of globSync("packages/*/dist", { cwd: ROOT }))
    cpSync(join(ROOT, built), join(checkout, built), { recursive: true, preserveTimestamps: true })
}
