import { requires } from "@berth/testing/requires"
import { describeFullDisk } from "./suite.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "sandboxes of an OCI runtime",
  () => describeFullDisk({ flags: () => [], isWhole: true, sparesRoot: true }),
)
