import { requires } from "@berth/testing/requires"
import { silentStops } from "./silent-stops.ts"
import { onSharedEngine, worldOfFile } from "./world.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces", "networkNamespaces").describe(
  "on the embedded backend",
  () => silentStops(worldOfFile(), "embedded", 2),
)

requires("root", "docker", "tini").describe("on a Docker engine", () =>
  silentStops(worldOfFile(onSharedEngine), "docker", 1),
)
