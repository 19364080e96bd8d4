import { execFileSync } from "node:child_process"
import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readConfigFile } from "@berth/local/config/file"
import { readLockHolder, writeLockHolder } from "@berth/local/lock-holder"
import { refuseForeignEntry } from "@berth/local/owned/entry"
import { judgeWriters } from "@berth/local/owned/judge"
import { isPrivate } from "@berth/local/owned/private-group"
import { readOwned } from "@berth/local/owned/read"
import { ensureToken, readToken } from "@berth/local/token"
import { requires } from "@berth/testing/requires"
import { describe, expect, it, onTestFinished } from "vitest"
import { openKeys } from "./keys/keys.ts"
import { Secrets } from "./logging/secrets.ts"
import { ensureDataDirectory } from "./store/data-directory.ts"

const STRANGER = 65_534
const TOKEN = "a".repeat(43)

/** A directory of this test's own in the system's sticky one. */
const makeDir = (): string => {
  const dir = mkdtempSync(join(tmpdir(), "berth-owned-"))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** A directory like /tmp: everyone may add entries, and remove their own. */
const makeShared = (): string => {
  const dir = makeDir()
  chmodSync(dir, 0o1777)
  return dir
}

/** Runs a script as another user of the machine. */
const asStranger = (script: string, ...args: string[]): void => {
  const ids = [`--reuid=${STRANGER}`, `--regid=${STRANGER}`, "--clear-groups"]
  execFileSync("setpriv", [...ids, "sh", "-euc", script, "sh", ...args], { stdio: "pipe" })
}

const source = (file: string): string => JSON.stringify(join(import.meta.dirname, file))

/** Runs a script in a process of its own, with nothing of this one's configuration. */
const runNode = (script: string, ...args: string[]): string =>
  execFileSync(
    process.execPath,
    ["--conditions=source", "--input-type=module", "--eval", script, ...args],
    { encoding: "utf8", env: { HOME: "/" } },
  ).trim()

const unsafe = (problem: string) => ({
  code: "host.path_unsafe",
  details: expect.objectContaining({
    problem: expect.stringContaining(problem),
    mend: expect.any(String),
  }),
})

const expectUnsafe = (act: () => unknown, problem: string): void => {
  expect(act).toThrow(expect.objectContaining(unsafe(problem)))
}

requires("root").describe("an entry of another user of the machine", () => {
  it("is refused as a data directory, open or not, through a link, and above a data directory", () => {
    const shared = makeShared()
    asStranger('cd "$1"; mkdir -m 755 empty; ln -s empty link; mkdir -m 777 open', shared)
    for (const name of ["empty", "link", "open", "empty/below/it"])
      expectUnsafe(() => ensureDataDirectory(join(shared, name)), `belongs to user ${STRANGER}`)
    expect(statSync(join(shared, "empty")).uid).toBe(STRANGER)
  })

  it("is refused as a token, by a server and by a client", async () => {
    const shared = makeShared()
    asStranger(`umask 077; printf ${TOKEN} > "$1/token"`, shared)
    for (const take of [ensureToken, readToken])
      await expect(take(shared)).rejects.toMatchObject(unsafe(join(shared, "token")))
  })

  it("does not lead a client to a server of another user", () => {
    const dataDir = join(makeShared(), "data")
    asStranger('mkdir -m 755 "$1"', dataDir)
    writeLockHolder(dataDir, "http://127.0.0.1:1")
    chownSync(join(dataDir, "server.json"), STRANGER, STRANGER)
    writeFileSync(join(dataDir, "token"), TOKEN, { mode: 0o600 })
    chownSync(join(dataDir, "token"), STRANGER, STRANGER)
    const script = `
      const { boots, layers, toolboxes } = await import(${source("./main.ts")})
      const { findServer } = await import(${JSON.stringify(import.meta.resolve("@berth/local/find-server"))})
      for (const open of [findServer, boots, layers, toolboxes])
        await open({ flags: { dataDir: process.argv[1] } }).then(
          () => console.log("taken"),
          ({ code }) => console.log(code),
        )`
    expect(runNode(script, dataDir)).toBe(Array(4).fill("host.path_unsafe").join("\n"))
    chownSync(dataDir, 0, 0)
    expectUnsafe(() => readLockHolder(dataDir), "server.json belongs to")
  })

  it("is refused in a data directory that was open to others for a time", () => {
    const dataDir = makeDir()
    chmodSync(dataDir, 0o777)
    asStranger('touch "$1/berth.db"', dataDir)
    chmodSync(dataDir, 0o700)
    expectUnsafe(() => ensureDataDirectory(dataDir), "berth.db belongs to")
  })

  it("is refused as a file of keys and as a configuration, also behind its link", async () => {
    const shared = makeShared()
    asStranger('cd "$1"; umask 077; echo ONE=theirs > keys; ln -s keys link', shared)
    for (const name of ["keys", "link"]) {
      const path = join(shared, name)
      const keys = openKeys(path, new Secrets())
      await expect(keys.read(["ONE"])).rejects.toMatchObject(unsafe("belongs to"))
      expectUnsafe(() => readConfigFile(path, "--config"), "belongs to")
    }
  })

  it("is refused as a socket of an engine", async () => {
    const shared = makeShared()
    const path = join(shared, "engine.sock")
    const server = createServer().listen(path)
    onTestFinished(() => void server.close())
    refuseForeignEntry(path)
    refuseForeignEntry(join(shared, "none.sock"))
    chownSync(path, STRANGER, STRANGER)
    expectUnsafe(() => refuseForeignEntry(path), "engine.sock belongs to")
  })

  it("is refused as a directory above this user's, and so is one that others may write to", () => {
    const base = makeDir()
    const ours = join(base, "theirs/below/ours")
    mkdirSync(ours, { recursive: true })
    chownSync(join(base, "theirs"), STRANGER, STRANGER)
    expectUnsafe(() => ensureDataDirectory(ours), "theirs belongs to")
    chownSync(join(base, "theirs"), 0, 0)
    for (const mode of [0o777, 0o757]) {
      chmodSync(join(base, "theirs"), mode)
      expectUnsafe(() => ensureDataDirectory(ours), "every user may write to")
    }
    chmodSync(join(base, "theirs"), 0o775)
    chownSync(join(base, "theirs"), 0, 100)
    expectUnsafe(() => ensureDataDirectory(ours), "group 100 may write to")
  })

  it("is not followed as a link to a file of this user", () => {
    const base = makeDir()
    writeFileSync(join(base, "file"), "text", { mode: 0o600 })
    symlinkSync(join(base, "file"), join(base, "link"))
    expect(readOwned(join(base, "link"), { followLast: true })?.text).toBe("text")
    lchownSync(join(base, "link"), STRANGER, STRANGER)
    expectUnsafe(() => readOwned(join(base, "link"), { followLast: true }), "link belongs to")
  })

  it("is a data directory for its owner, and not for a third user", () => {
    const shared = makeShared()
    asStranger('mkdir -m 755 "$1/data"', shared)
    const script = `
      const { ensureDataDirectory } = await import(${source("./store/data-directory.ts")})
      process.setgroups([]); process.setgid(+process.argv[1]); process.setuid(+process.argv[1])
      try { ensureDataDirectory(process.argv[2]); console.log("used") } catch ({ code }) { console.log(code) }`
    const use = (uid: number) => runNode(script, String(uid), join(shared, "data"))
    expect(use(STRANGER)).toBe("used")
    expect(use(2)).toBe("host.path_unsafe")
  })
})

describe("an entry of this user", () => {
  it.each([0o700, 0o711, 0o755])("is a data directory with mode %o, below a sticky one", (mode) => {
    const dataDir = join(makeDir(), "state/berth")
    ensureDataDirectory(dataDir)
    expect(statSync(dataDir).mode & 0o777).toBe(0o700)
    chmodSync(dataDir, mode)
    ensureDataDirectory(dataDir)
    expect(statSync(dataDir).mode & 0o777).toBe(mode)
  })

  it("is reached through relative and absolute links, and not through a loop", () => {
    const base = makeDir()
    mkdirSync(join(base, "real"), { mode: 0o755 })
    symlinkSync("real", join(base, "relative"))
    symlinkSync(join(base, "relative"), join(base, "absolute"))
    symlinkSync("loop", join(base, "loop"))
    ensureDataDirectory(join(base, "absolute/../absolute/data"))
    expect(statSync(join(base, "real/data")).isDirectory()).toBe(true)
    expect(() => ensureDataDirectory(join(base, "loop"))).toThrow(
      expect.objectContaining({ code: "store.no_directory" }),
    )
  })

  it("is refused as a data directory where everyone may add entries, sticky or not", () => {
    for (const mode of [0o777, 0o1777]) {
      const dataDir = makeDir()
      chmodSync(dataDir, mode)
      expectUnsafe(() => ensureDataDirectory(dataDir), `every user may write to ${dataDir}`)
    }
  })

  it("may be open to a group without other members", () => {
    const passwd = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:\nbob:x:1001:1001::/:"
    const group = "root:x:0:\nann:x:1000:\nbob:x:1001:bob,ann\nshared:x:50:ann\nusers:x:100:"
    const has = (gid: number, uid: number) => isPrivate({ gid, uid, passwd, group })
    expect([has(1000, 1000), has(50, 1000), has(100, 1000)]).toEqual([true, false, false])
    expect([has(1001, 1000), has(1001, 1001), has(1000, 0), has(7, 1000)]).not.toContain(true)
    expect(isPrivate({ gid: 1000, uid: 1000, passwd, group: "" })).toBe(false)
    const judge = { uid: 1000, isPrivateGroup: has }
    const home = { mode: 0o40775, uid: 1000, gid: 1000 }
    expect(judgeWriters(home, "/home/ann", judge)).toBeUndefined()
    expect(judgeWriters({ ...home, gid: 1001 }, "/home/ann", judge)).toMatchObject({
      problem: "group 1001 may write to /home/ann",
    })
    expect(judgeWriters({ ...home, mode: 0o40777 }, "/home/ann", judge)).toBeDefined()
  })

  it("is refused as a file when it is a pipe, without a wait for its writer", () => {
    const path = join(makeDir(), "token")
    execFileSync("mkfifo", ["-m", "600", path])
    expect(() => readOwned(path, { followLast: false })).toThrow("not a regular file")
  })
})
