import { describe, expect, it } from "vitest"
import { describeKeys, showConfig } from "./describe.ts"
import { loadConfig } from "./load.ts"

const SECRET = "s3cret-value-0123456789"

describe("showConfig", () => {
  it("masks a secret and says where it came from", () => {
    const shown = showConfig(
      loadConfig({
        flags: {},
        env: { BERTH_TOKEN: SECRET },
        home: "/h",
        isRoot: false,
        workingDir: "/",
      }),
    )
    expect(shown).toContainEqual({
      key: "token",
      value: "(hidden)",
      origin: "environment variable BERTH_TOKEN",
    })
    expect(shown).toContainEqual({ key: "port", value: 7766, origin: "default" })
    expect(JSON.stringify(shown)).not.toContain(SECRET)
  })

  it("shows no value for a secret that is not set", () => {
    const shown = showConfig(
      loadConfig({ flags: {}, env: {}, home: "/h", isRoot: false, workingDir: "/" }),
    )
    expect(shown).toContainEqual({ key: "token", value: null, origin: "default" })
  })
})

describe("describeKeys", () => {
  it("offers a flag and a variable for each key, but no flag for a secret", () => {
    const keys = describeKeys()
    expect(keys).toContainEqual(
      expect.objectContaining({ flag: "--data-dir", variable: "BERTH_DATA_DIR" }),
    )
    expect(keys.find(({ key }) => key === "token")).not.toHaveProperty("flag")
  })
})
