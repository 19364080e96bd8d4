import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { type ConfigInput, loadConfig } from "./load.ts"
import type { Problem } from "./problem.ts"

const SECRET = "s3cret-value-0123456789"

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "berth-config-"))
})
afterEach(() => {
  rmSync(dir, { recursive: true, force: true })
})

const load = (input: Partial<ConfigInput> = {}) =>
  loadConfig({ flags: {}, env: {}, home: dir, isRoot: false, workingDir: dir, ...input })

const problemsOf = (input: Partial<ConfigInput>): Problem[] => {
  try {
    load(input)
  } catch (error) {
    if (!(error instanceof BerthError)) throw error
    expect(error.code).toBe("config.invalid")
    return error.details.problems as Problem[]
  }
  throw new Error("the configuration was taken")
}

const writeFile = (text: string, name = "config.yaml"): string => {
  const path = join(dir, name)
  writeFileSync(path, text, { mode: 0o600 })
  return path
}

describe("a secret in a file", () => {
  it("is taken where only its owner may read the file, else refused with the command that mends it", () => {
    const configFile = writeFile(`token: ${SECRET}\n`)
    expect(load({ configFile }).config.token).toBe(SECRET)
    chmodSync(configFile, 0o644)
    const [problem, ...others] = problemsOf({ configFile })
    expect(problem).toMatchObject({ path: "token", source: configFile })
    expect(problem?.message).toContain(`chmod 600 ${configFile}`)
    expect(JSON.stringify([problem, others])).not.toContain(SECRET)
    expect(others).toEqual([])
    chmodSync(writeFile("logLevel: warn\n"), 0o644)
    expect(load({ configFile }).config.logLevel).toBe("warn")
  })
})

describe("the configuration", () => {
  it("takes defaults where no source gives a value", () => {
    const { config, origins, file } = load()
    expect(config).toEqual({
      dataDir: join(dir, ".local/state/berth"),
      host: "127.0.0.1",
      port: 7766,
      logLevel: "info",
      backend: "embedded",
      image: "buildpack-deps:bookworm",
      idlePause: "10m",
      idleStop: "24h",
      failedBootKeep: "15m",
      diskLimit: "0",
      sessionKeep: "3m",
      keepEvents: "90d",
      keysFile: join(dir, ".local/state/berth/keys.env"),
    })
    expect(new Set(Object.values(origins))).toEqual(new Set(["default"]))
    expect(file).toEqual({ path: join(dir, ".config/berth/config.yaml"), present: false })
  })

  it("puts flags over the environment over the file", () => {
    const configFile = writeFile("port: 1\nlogLevel: warn\nhost: ::1\n")
    const { config, origins } = load({
      configFile,
      env: { BERTH_PORT: "2", BERTH_LOG_LEVEL: "error" },
      flags: { port: "3" },
    })
    expect(config).toMatchObject({ port: 3, logLevel: "error", host: "::1" })
    expect(origins).toMatchObject({
      port: "flag --port",
      logLevel: "environment variable BERTH_LOG_LEVEL",
      host: configFile,
      backend: "default",
    })
  })

  it("reads the default file when it is present, and instead the file that BERTH_CONFIG names", () => {
    mkdirSync(join(dir, "berth"))
    writeFile("port: 1", "berth/config.yaml")
    const env = { XDG_CONFIG_HOME: dir }
    expect(load({ env }).config.port).toBe(1)
    const other = writeFile("port: 2", "other.yaml")
    expect(load({ env: { ...env, BERTH_CONFIG: other } }).config.port).toBe(2)
  })

  it("takes an empty file, and one with comments only", () => {
    expect(load({ configFile: writeFile("") }).config.port).toBe(7766)
    expect(load({ configFile: writeFile("# port: 1\n") }).config.port).toBe(7766)
  })

  it("gives root the system's directories, unless an XDG variable says otherwise", () => {
    expect(load({ isRoot: true }).config.dataDir).toBe("/var/lib/berth")
    const env = { XDG_STATE_HOME: "/state" }
    expect(load({ isRoot: true, env }).config.dataDir).toBe("/state/berth")
    expect(load({ env: { XDG_STATE_HOME: "relative" } }).config.dataDir).toBe(
      join(dir, ".local/state/berth"),
    )
  })

  it("resolves a path against the working directory, the home, or the directory of its file", () => {
    expect(load({ flags: { dataDir: "d" } }).config.dataDir).toBe(join(dir, "d"))
    expect(load({ env: { BERTH_DATA_DIR: "~/d" } }).config.dataDir).toBe(join(dir, "d"))
    mkdirSync(join(dir, "etc"))
    const configFile = writeFile("dataDir: ../d", "etc/c.yaml")
    expect(load({ configFile, workingDir: "/" }).config.dataDir).toBe(join(dir, "d"))
  })
})

describe("the check of the configuration", () => {
  it("reports every mistake of every source at once", () => {
    const configFile = writeFile("prot: 1\nlogLevel: loud\nbackend: [a]\n")
    const problems = problemsOf({
      configFile,
      env: { BERTH_HOST: "0.0.0.0", BERTH_DATADIR: "/x", PATH: "/bin" },
      flags: { port: "70000" },
    })
    expect(problems.map(({ path, source }) => `${path} < ${source}`)).toEqual([
      "port < flag --port",
      "host < environment variable BERTH_HOST",
      "BERTH_DATADIR < environment variable BERTH_DATADIR",
      `prot < ${configFile}`,
      `logLevel < ${configFile}`,
      `backend < ${configFile}`,
    ])
    expect(problems[0]).toMatchObject({
      given: '"70000"',
      allowed: "a whole number from 0 to 65535",
    })
    expect(problems[4]?.message).toBe(
      `logLevel: "loud" is not allowed (from ${configFile}); allowed: one of trace, debug, info, warn, error, fatal, silent`,
    )
    expect(problems[2]?.didYouMean).toBe("BERTH_DATA_DIR")
    expect(problems[3]?.didYouMean).toBe("port")
  })

  it.each(["", " 1", "0x10", "1e3", "-1", "1.5", "65536", "true", true, null, [1]])(
    "refuses the port %j",
    (port) => {
      expect(problemsOf({ flags: { port } })).toHaveLength(1)
    },
  )

  it.each(["0", "65535", 0, 7766])("takes the port %j", (port) => {
    expect(load({ flags: { port } }).config.port).toBe(Number(port))
  })

  it.each([
    ["90s", "90s"],
    ["0", "0"],
    [0, "0"],
  ])("takes %j for a time", (idlePause, taken) => {
    expect(load({ flags: { idlePause } }).config.idlePause).toBe(taken)
  })

  it.each(["", "10", 10, "1.5h", "-1s", "never"])("refuses %j for a time", (idlePause) => {
    expect(problemsOf({ flags: { idlePause } })[0]?.message).toContain("such as 90s or 2h")
  })

  it.each(["0.0.0.0", "::", "192.168.0.1", "example.com", "127.0.0.1.example.com", ""])(
    "refuses to listen on %j, which is not loopback",
    (host) => {
      expect(problemsOf({ flags: { host } })[0]?.message).toContain("loopback")
    },
  )

  it.each([{ dataDir: "" }, { dataDir: "a\0b" }, { dataDir: 5 }, { dataDir: null }])(
    "refuses %j",
    (flags) => {
      expect(problemsOf({ flags })).toHaveLength(1)
    },
  )

  it("never shows a secret's value, nor that of an unknown key", () => {
    const bad = `${SECRET} with a space`
    const texts = [
      problemsOf({ env: { BERTH_TOKEN: bad, BERTH_TOKN: SECRET } }),
      problemsOf({ configFile: writeFile(`token: ${bad}\ntokens: ${SECRET}\n`) }),
      problemsOf({ configFile: writeFile(`token: "${SECRET}\n x: [`) }),
      problemsOf({ configFile: writeFile(`${SECRET}`) }),
      problemsOf({ configFile: writeFile(`token: !!int ${SECRET}`) }),
    ].map((problems) => JSON.stringify(problems))
    expect(texts.join("\n")).toContain("(hidden)")
    expect(texts.join("\n")).not.toContain(SECRET)
  })

  it("takes no secret from a flag", () => {
    expect(problemsOf({ flags: { token: SECRET } })[0]).toMatchObject({ path: "--token" })
  })

  it("names the line of the file that is not YAML", () => {
    const configFile = writeFile("port: 1\nport: 2\n")
    expect(problemsOf({ configFile })[0]?.message).toMatch(
      `${configFile}: not valid YAML at line 2, column 1 (DUPLICATE_KEY)`,
    )
  })

  it("refuses a file that is missing though it was named, is a directory, a list, or a bomb of aliases", () => {
    expect(problemsOf({ configFile: "none.yaml" })[0]?.message).toContain(
      `${join(dir, "none.yaml")}: does not exist, but --config names it`,
    )
    expect(problemsOf({ env: { BERTH_CONFIG: "none.yaml" } })[0]?.message).toContain("BERTH_CONFIG")
    expect(problemsOf({ configFile: dir })[0]?.message).toContain("EISDIR")
    expect(problemsOf({ configFile: writeFile("- port") })[0]?.message).toContain("key: value")
    const bomb = [
      "a: &a [x]",
      ..."bcdefgh".split("").map((c, i) => `${c}: &${c} [${Array(20).fill(`*${"abcdefg"[i]}`)}]`),
    ]
    expect(problemsOf({ configFile: writeFile(bomb.join("\n")) })[0]?.message).toContain("aliases")
  })

  it("reports a broken file together with the mistakes of other sources", () => {
    const problems = problemsOf({ configFile: writeFile("a: ["), env: { BERTH_PORT: "x" } })
    expect(problems.map(({ path }) => path)).toEqual(["(file)", "port"])
  })

  it("refuses __proto__ and constructor as unknown keys", () => {
    const configFile = writeFile("__proto__: 1\nconstructor: 2\n")
    expect(problemsOf({ configFile }).map(({ path }) => path)).toEqual(["__proto__", "constructor"])
  })
})
