import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { askEngine, openHarness } from "@berth/backends/docker/testing/harness"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { reconcileSuite } from "./suite.ts"

requires("docker").describe("docker", () => {
  reconcileSuite({ name: "Docker", few: 1 }, async () => {
    const harness = await openHarness()
    const { engine, installation, image } = harness
    const inspect = async (id: string) => {
      const { body } = await askEngine(engine, "GET", `/containers/${id}/json`)
      return body as { State?: { Running: boolean }; Id: string }
    }
    return {
      ...harness,
      obstruct: async (sandbox) => {
        const [found] = (
          await askEngine(
            engine,
            "GET",
            `/containers/json?all=1&filters=${encodeURIComponent(JSON.stringify({ label: [`berth.sandbox=${sandbox}`] }))}`,
          )
        ).body as { Id: string }[]
        const path = join(engine.data, "containers", found?.Id ?? "", "config.v2.json")
        execFileSync("chattr", ["+i", path])
        return async () => void execFileSync("chattr", ["-i", path])
      },
      // Containers of another Berth, without an installation, and with labels that are only half right.
      strangers: async () => {
        const labels = [
          { "berth.installation": newId.installation(), "berth.sandbox": newId.sandbox() },
          { "berth.sandbox": newId.sandbox() },
          { "berth.installation": `${installation}x` },
        ]
        const names = [`berth-${newId.sandbox()}`, newId.sandbox(), "postgres"]
        const ids = await Promise.all(
          labels.map(async (Labels, index) => {
            const made = await askEngine(
              ...[engine, "POST", `/containers/create?name=${names[index]}`],
              { Image: image, Cmd: ["sleep", "1000"], Labels },
            )
            const { Id } = made.body as { Id: string }
            await askEngine(engine, "POST", `/containers/${Id}/start`)
            return Id
          }),
        )
        return async () => {
          const seen = await Promise.all(ids.map(inspect))
          for (const id of ids) await askEngine(engine, "DELETE", `/containers/${id}?force=1`)
          return seen.every(({ State }) => State?.Running === true)
        }
      },
    }
  })
})
