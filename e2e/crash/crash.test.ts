import { requires } from "@berth/testing/requires"
import { MISHAPS } from "./mishaps.ts"
import { crashSuite } from "./suite.ts"
import { worldOfFile } from "./world.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces", "networkNamespaces").describe(
  "on the embedded backend",
  () => {
    crashSuite({
      backend: "embedded",
      world: worldOfFile(),
      mishaps: MISHAPS,
      few: { steps: 2, mishaps: 1 },
    })
  },
)
