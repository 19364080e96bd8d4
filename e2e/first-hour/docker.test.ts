import { requires } from "@berth/testing/requires"
import { startEngine } from "../docker/engine.ts"
import { onEveryBackend } from "./journeys/on-every-backend.ts"
import { useMachine } from "./newcomer.ts"

requires("root", "docker", "tini").describe("a newcomer, on Docker", () => {
  let engine: Awaited<ReturnType<typeof startEngine>> | undefined
  const open = async () => {
    engine = await startEngine()
    return engine.flags
  }
  const close = async () => await engine?.stop()
  onEveryBackend(useMachine({ name: "docker", open, close }))
})
