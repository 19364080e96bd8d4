import { spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { describe, expect, it } from "vitest"
import { Home, NO_LINKS } from "./testing/home.ts"

const CHILD = fileURLToPath(new URL("./testing/place-child.ts", import.meta.url))
/** The environment without Node's compile cache, whose system calls would be counted with those of the placing. */
const { NODE_COMPILE_CACHE: _, ...UNCACHED } = process.env

const play = async (
  home: Home,
  how: "link" | "copy",
  { path = "/usr/bin:/bin", before = [] as string[], env = process.env } = {},
) => {
  const { toolbox, home: at } = home.roots
  const [file = "", ...args] = [...before, process.execPath, "--conditions=source", CHILD]
  const child = spawn(file, [...args, toolbox, at, how, path], {
    env,
    stdio: ["ignore", "ignore", "ignore"],
  })
  const [status] = await once(child, "close")
  return status === 0
}

/** Expects that the next boot makes the home as it should be, by links or by copies. */
const expectRepaired = async (home: Home, when: string) => {
  const placement = await home.place()
  expect(placement.kept, when).toEqual([])
  const names = Object.keys(home.listing())
  expect(
    names.filter((name) => /berth-(aside|old)/.test(name)),
    when,
  ).toEqual([])
  const read = home.listing()
  expect(
    Object.values(read).filter((what) => what.endsWith(" of another")),
    when,
  ).toEqual([])
  const version = { "-> /toolbox/agents/x/package.json": true, '{"version":"2.0.0"}': true }
  expect(version, when).toHaveProperty([read[".config/x/package.json"] ?? "nothing"])
  const tree = read[".config/x/node_modules"]
  expect(["-> /toolbox/agents/x/node_modules", "directory"], when).toContain(tree)
  if (tree === "directory")
    expect(read[".config/x/node_modules/plugin/lib/index.js"], when).toBe("// 2.0.0")
}

/** Makes a home with a link of an earlier version at each place. */
const withLinks = () => {
  const home = new Home()
  mkdirSync(home.path(".config/x"), { recursive: true })
  for (const name of ["node_modules", "package.json"])
    symlinkSync(join(home.roots.toolbox, "old", name), home.path(".config/x", name))
  home.giveAway()
  home.fill("2.0.0")
  return home
}
const withCopies = async () => {
  const home = new Home()
  await home.place(NO_LINKS)
  home.fill("2.0.0")
  return home
}
const withNothing = () => {
  const home = new Home()
  home.fill("2.0.0")
  return home
}

requires("root", "strace").describe("linking that is killed", () => {
  it.each([
    ["an empty home", withNothing, { mkdir: 4, fchown: 2, fchmod: 2, symlink: 2, chown: 2 }],
    [
      "a home with links of an earlier version",
      withLinks,
      { rename: 2, unlink: 2, symlink: 2, chown: 2 },
    ],
  ])(
    "[R2.7] at a system call that changes %s is put right by the next boot",
    async (which, make, calls) => {
      const points = Object.entries(calls).flatMap(([call, times]) =>
        // One more than there are calls: the last one kills nothing.
        Array.from({ length: times + 1 }, (_, index) => ({ call, times, kill: index + 1 })),
      )
      const drawn = sampled(`crash points of linking agent files into ${which}`, points, 4)
      for (const { call, times, kill } of drawn) {
        const home = make()
        try {
          const inject = `inject=${call}:signal=SIGKILL:when=${kill}`
          const strace = ["strace", "-o", "/dev/null", "-e", `trace=${call}`, "-e", inject]
          const survived = await play(home, "link", { before: strace, env: UNCACHED })
          expect(survived, `${call} ${kill}`).toBe(kill > times)
          await expectRepaired(home, `killed at ${call} ${kill}`)
        } finally {
          home.close()
        }
      }
    },
    120_000,
  )
})

describe("copying that is killed", () => {
  const PROGRAMS = ["mkdir", "cp", "chmod", "mv", "rm"]

  /** Programs are counted from one. */
  const NONE = 0
  const countOf = (home: Home) => join(home.directory, "count")

  /** Ends the n-th program before its work, or a copy amid it, and with it its shell and the supervisor. */
  const killers = (home: Home, kill: number) => {
    const count = countOf(home)
    writeFileSync(count, "")
    chmodSync(count, 0o666)
    const die = "kill -9 $(ps -o ppid= -p $PPID) $PPID $$"
    const half = '/bin/mkdir -p "$4/plugin"; /bin/chmod 555 "$4/plugin"'
    return home.programs(
      Object.fromEntries(
        PROGRAMS.map((name) => [
          name,
          `printf x >> ${count}
          [ $(wc -c < ${count}) = ${kill} ] && { ${name === "cp" ? half : ":"}; ${die}; }
          exec /bin/${name} "$@"`,
        ]),
      ),
    )
  }

  it.each([
    ["an empty home", withNothing],
    ["a home with links of an earlier version", withLinks],
    ["a home with copies of an earlier version", withCopies],
  ])(
    "[R2.7] at a program in %s is put right by the next boot",
    async (which, make) => {
      const kill = async (number: number) => {
        const home = await make()
        try {
          const survived = await play(home, "copy", { path: killers(home, number) })
          await expectRepaired(home, `killed at program ${number}`)
          return { survived, programs: readFileSync(countOf(home), "utf8").length }
        } finally {
          home.close()
        }
      }
      const { survived, programs } = await kill(NONE)
      expect(survived).toBe(true)
      expect(programs).toBeGreaterThan(5)
      const all = Array.from({ length: programs }, (_, index) => index + 1)
      for (const number of sampled(`crash points of copying agent files into ${which}`, all, 3))
        expect(await kill(number)).toMatchObject({ survived: false })
    },
    120_000,
  )
})
