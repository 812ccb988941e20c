// unbind, mul x20, add x20, tanh x20, stack: 3 loop nests.
//   loops0: 32; 6 stored
//     then: 32; 14 stored
//     then: 20 x 32; 1 stored
// playbook plan: {"knobs": {}, "recipe": "loops"}
// convolution.cpp: 28 lines
// pointwise.cpp: 69 lines
void loops0(float const* pA, float const* pB, float* pOutput) {
  for (int64_t task = 0; task < 4; ++task) {
    int64_t const b0 = task;
    alignas(64) float ownBetween2[32];
    float* const pBetween2 = ownBetween2;
    alignas(64) float ownBetween3[32];
    float* const pBetween3 = ownBetween3;
    alignas(64) float ownBetween4[32];
    float* const pBetween4 = ownBetween4;
    alignas(64) float ownBetween5[32];
    float* const pBetween5 = ownBetween5;
    alignas(64) float ownBetween6[32];
    float* const pBetween6 = ownBetween6;
    alignas(64) float ownBetween7[32];
    float* const pBetween7 = ownBetween7;
    alignas(64) float ownBetween9[32];
    float* const pBetween9 = ownBetween9;
    alignas(64) float ownBetween10[32];
    float* const pBetween10 = ownBetween10;
    alignas(64) float ownBetween12[32];
    float* const pBetween12 = ownBetween12;
    alignas(64) float ownBetween13[32];
    float* const pBetween13 = ownBetween13;
    alignas(64) float ownBetween15[32];
    float* const pBetween15 = ownBetween15;
    alignas(64) float ownBetween16[32];
    float* const pBetween16 = ownBetween16;
    alignas(64) float ownBetween18[32];
    float* const pBetween18 = ownBetween18;
    alignas(64) float ownBetween20[32];
    float* const pBetween20 = ownBetween20;
    alignas(64) float ownBetween22[32];
    float* const pBetween22 = ownBetween22;
    alignas(64) float ownBetween24[32];
    float* const pBetween24 = ownBetween24;
    alignas(64) float ownBetween26[32];
    float* const pBetween26 = ownBetween26;
    alignas(64) float ownBetween28[32];
    float* const pBetween28 = ownBetween28;
    alignas(64) float ownBetween30[32];
    float* const pBetween30 = ownBetween30;
    alignas(64) float ownBetween31[32];
    float* const pBetween31 = ownBetween31;
    Tensor mA = make_tensor(pA, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mB = make_tensor(pB, Layout<Shape<Int<4>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_2 = make_tensor(pA + 32, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_3 = make_tensor(pA + 64, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_4 = make_tensor(pA + 96, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_5 = make_tensor(pA + 128, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_6 = make_tensor(pA + 160, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mBetween2 = make_tensor(pBetween2, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween3 = make_tensor(pBetween3, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween4 = make_tensor(pBetween4, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween5 = make_tensor(pBetween5, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween6 = make_tensor(pBetween6, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween7 = make_tensor(pBetween7, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mA_7 = make_tensor(pA + 192, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_8 = make_tensor(pA + 224, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_9 = make_tensor(pA + 256, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_10 = make_tensor(pA + 288, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_11 = make_tensor(pA + 320, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_12 = make_tensor(pA + 352, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_13 = make_tensor(pA + 384, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_14 = make_tensor(pA + 416, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_15 = make_tensor(pA + 448, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_16 = make_tensor(pA + 480, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_17 = make_tensor(pA + 512, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_18 = make_tensor(pA + 544, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_19 = make_tensor(pA + 576, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mA_20 = make_tensor(pA + 608, Layout<Shape<Int<4>, Int<32>>, Stride<Int<640>, Int<1>>>{});  // (b0:4, i1:32)
    Tensor mBetween9 = make_tensor(pBetween9, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween10 = make_tensor(pBetween10, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween12 = make_tensor(pBetween12, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween13 = make_tensor(pBetween13, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween15 = make_tensor(pBetween15, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween16 = make_tensor(pBetween16, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween18 = make_tensor(pBetween18, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween20 = make_tensor(pBetween20, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween22 = make_tensor(pBetween22, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween24 = make_tensor(pBetween24, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween26 = make_tensor(pBetween26, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween28 = make_tensor(pBetween28, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween30 = make_tensor(pBetween30, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween31 = make_tensor(pBetween31, Layout<Shape<Int<32>>, Stride<Int<1>>>{});  // (i1:32)
    Tensor mBetween31_2 = make_tensor(pBetween31 - 608, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween30_2 = make_tensor(pBetween30 - 576, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween28_2 = make_tensor(pBetween28 - 544, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween26_2 = make_tensor(pBetween26 - 512, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween24_2 = make_tensor(pBetween24 - 480, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween22_2 = make_tensor(pBetween22 - 448, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween20_2 = make_tensor(pBetween20 - 416, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween18_2 = make_tensor(pBetween18 - 384, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween16_2 = make_tensor(pBetween16 - 352, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween15_2 = make_tensor(pBetween15 - 320, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween13_2 = make_tensor(pBetween13 - 288, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween12_2 = make_tensor(pBetween12 - 256, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween10_2 = make_tensor(pBetween10 - 224, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween9_2 = make_tensor(pBetween9 - 192, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween7_2 = make_tensor(pBetween7 - 160, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween6_2 = make_tensor(pBetween6 - 128, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween5_2 = make_tensor(pBetween5 - 96, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween4_2 = make_tensor(pBetween4 - 64, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween3_2 = make_tensor(pBetween3 - 32, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mBetween2_2 = make_tensor(pBetween2, Layout<Shape<Int<20>, Int<32>>, Stride<Int<32>, Int<1>>>{});  // (i1:20, i2:32)
    Tensor mOutput = make_tensor(pOutput, Layout<Shape<Int<4>, Int<20>, Int<32>>, Stride<Int<640>, Int<32>, Int<1>>>{});  // (b0:4, i1:20, i2:32)
    {
      for (int64_t i1 = 0; i1 < 32; i1 += kLanes) {
        constexpr int n = kLanes;
        vfloat const rA = nearby<vfloat>(&mA(b0, i1), 0, n);
        vfloat const rB = nearby<vfloat>(&mB(b0, i1), 0, n);
        vfloat const v2 = rB * 0.5f;  // aten.mul.Tensor
        vfloat const v3 = v2 + rA;  // aten.add.Tensor
        vfloat const v4 = math::tanh(v3);  // aten.tanh
        vfloat const rA_2 = nearby<vfloat>(&mA_2(b0, i1), 0, n);
        vfloat const v6 = v4 * 0.5f;  // aten.mul.Tensor
        vfloat const v7 = v6 + rA_2;  // aten.add.Tensor
        vfloat const v8 = math::tanh(v7);  // aten.tanh
        vfloat const rA_3 = nearby<vfloat>(&mA_3(b0, i1), 0, n);
        vfloat const v10 = v8 * 0.5f;  // aten.mul.Tensor
        vfloat const v11 = v10 + rA_3;  // aten.add.Tensor
        vfloat const v12 = math::tanh(v11);  // aten.tanh
        vfloat const rA_4 = nearby<vfloat>(&mA_4(b0, i1), 0, n);
        vfloat const v14 = v12 * 0.5f;  // aten.mul.Tensor
        vfloat const v15 = v14 + rA_4;  // aten.add.Tensor
        vfloat const v16 = math::tanh(v15);  // aten.tanh
        vfloat const rA_5 = nearby<vfloat>(&mA_5(b0, i1), 0, n);
        vfloat const v18 = v16 * 0.5f;  // aten.mul.Tensor
        vfloat const v19 = v18 + rA_5;  // aten.add.Tensor
        vfloat const v20 = math::tanh(v19);  // aten.tanh
        vfloat const rA_6 = nearby<vfloat>(&mA_6(b0, i1), 0, n);
        vfloat const v22 = v20 * 0.5f;  // aten.mul.Tensor
        vfloat const v23 = v22 + rA_6;  // aten.add.Tensor
        vfloat const v24 = math::tanh(v23);  // aten.tanh
        put(&mBetween2(i1), v4, n);
        put(&mBetween3(i1), v8, n);
        put(&mBetween4(i1), v12, n);
        put(&mBetween5(i1), v16, n);
        put(&mBetween6(i1), v20, n);
        put(&mBetween7(i1), v24, n);
      }
    }
    {
      for (int64_t i1 = 0; i1 < 32; i1 += kLanes) {
        constexpr int n = kLanes;
        vfloat const rA = nearby<vfloat>(&mA_7(b0, i1), 0, n);
        vfloat const rA_2 = nearby<vfloat>(&mA_6(b0, i1), 0, n);
        vfloat const rA_3 = nearby<vfloat>(&mA_5(b0, i1), 0, n);
        vfloat const rA_4 = nearby<vfloat>(&mA_4(b0, i1), 0, n);
        vfloat const rA_5 = nearby<vfloat>(&mA_3(b0, i1), 0, n);
        vfloat const rA_6 = nearby<vfloat>(&mA_2(b0, i1), 0, n);
        vfloat const rA_7 = nearby<vfloat>(&mA(b0, i1), 0, n);
        vfloat const rB = nearby<vfloat>(&mB(b0, i1), 0, n);
        vfloat const v8 = rB * 0.5f;  // aten.mul.Tensor
        vfloat const v9 = v8 + rA_7;  // aten.add.Tensor
        vfloat const v10 = math::tanh(v9);  // aten.tanh
        vfloat const v11 = v10 * 0.5f;  // aten.mul.Tensor
        vfloat const v12 = v11 + rA_6;  // aten.add.Tensor
        vfloat const v13 = math::tanh(v12);  // aten.tanh
        vfloat const v14 = v13 * 0.5f;  // aten.mul.Tensor
        vfloat const v15 = v14 + rA_5;  // aten.add.Tensor
        vfloat const v16 = math::tanh(v15);  // aten.tanh
        vfloat const v17 = v16 * 0.5f;  // aten.mul.Tensor
        vfloat const v18 = v17 + rA_4;  // aten.add.Tensor
        vfloat const v19 = math::tanh(v18);  // aten.tanh
        vfloat const v20 = v19 * 0.5f;  // aten.mul.Tensor
        vfloat const v21 = v20 + rA_3;  // aten.add.Tensor
        vfloat const v22 = math::tanh(v21);  // aten.tanh
        vfloat const v23 = v22 * 0.5f;  // aten.mul.Tensor
        vfloat const v24 = v23 + rA_2;  // aten.add.Tensor
        vfloat const v25 = math::tanh(v24);  // aten.tanh
        vfloat const v26 = v25 * 0.5f;  // aten.mul.Tensor
        vfloat const v27 = v26 + rA;  // aten.add.Tensor
        vfloat const v28 = math::tanh(v27);  // aten.tanh
        vfloat const rA_8 = nearby<vfloat>(&mA_8(b0, i1), 0, n);
        vfloat const v30 = v28 * 0.5f;  // aten.mul.Tensor
        vfloat const v31 = v30 + rA_8;  // aten.add.Tensor
        vfloat const v32 = math::tanh(v31);  // aten.tanh
        vfloat const rA_9 = nearby<vfloat>(&mA_9(b0, i1), 0, n);
        vfloat const v34 = v32 * 0.5f;  // aten.mul.Tensor
        vfloat const v35 = v34 + rA_9;  // aten.add.Tensor
        vfloat const v36 = math::tanh(v35);  // aten.tanh
        vfloat const rA_10 = nearby<vfloat>(&mA_10(b0, i1), 0, n);
        vfloat const v38 = v36 * 0.5f;  // aten.mul.Tensor
        vfloat const v39 = v38 + rA_10;  // aten.add.Tensor
        vfloat const v40 = math::tanh(v39);  // aten.tanh
        vfloat const rA_11 = nearby<vfloat>(&mA_11(b0, i1), 0, n);
        vfloat const v42 = v40 * 0.5f;  // aten.mul.Tensor
        vfloat const v43 = v42 + rA_11;  // aten.add.Tensor
        vfloat const v44 = math::tanh(v43);  // aten.tanh
        vfloat const rA_12 = nearby<vfloat>(&mA_12(b0, i1), 0, n);
        vfloat const v46 = v44 * 0.5f;  // aten.mul.Tensor
        vfloat const v47 = v46 + rA_12;  // aten.add.Tensor
        vfloat const v48 = math::tanh(v47);  // aten.tanh
        vfloat const rA_13 = nearby<vfloat>(&mA_13(b0, i1), 0, n);
        vfloat const v50 = v48 * 0.5f;  // aten.mul.Tensor
        vfloat const v51 = v50 + rA_13;  // aten.add.Tensor
        vfloat const v52 = math::tanh(v51);  // aten.tanh
        vfloat const rA_14 = nearby<vfloat>(&mA_14(b0, i1), 0, n);
        vfloat const v54 = v52 * 0.5f;  // aten.mul.Tensor
        vfloat const v55 = v54 + rA_14;  // aten.add.Tensor
        vfloat const v56 = math::tanh(v55);  // aten.tanh
        vfloat const rA_15 = nearby<vfloat>(&mA_15(b0, i1), 0, n);
        vfloat const v58 = v56 * 0.5f;  // aten.mul.Tensor
        vfloat const v59 = v58 + rA_15;  // aten.add.Tensor
        vfloat const v60 = math::tanh(v59);  // aten.tanh
        vfloat const rA_16 = nearby<vfloat>(&mA_16(b0, i1), 0, n);
        vfloat const v62 = v60 * 0.5f;  // aten.mul.Tensor
        vfloat const v63 = v62 + rA_16;  // aten.add.Tensor
        vfloat const v64 = math::tanh(v63);  // aten.tanh
        vfloat const rA_17 = nearby<vfloat>(&mA_17(b0, i1), 0, n);
        vfloat const v66 = v64 * 0.5f;  // aten.mul.Tensor
        vfloat const v67 = v66 + rA_17;  // aten.add.Tensor
        vfloat const v68 = math::tanh(v67);  // aten.tanh
        vfloat const rA_18 = nearby<vfloat>(&mA_18(b0, i1), 0, n);
        vfloat const v70 = v68 * 0.5f;  // aten.mul.Tensor
        vfloat const v71 = v70 + rA_18;  // aten.add.Tensor
        vfloat const v72 = math::tanh(v71);  // aten.tanh
        vfloat const rA_19 = nearby<vfloat>(&mA_19(b0, i1), 0, n);
        vfloat const v74 = v72 * 0.5f;  // aten.mul.Tensor
        vfloat const v75 = v74 + rA_19;  // aten.add.Tensor
        vfloat const v76 = math::tanh(v75);  // aten.tanh
        vfloat const rA_20 = nearby<vfloat>(&mA_20(b0, i1), 0, n);
        vfloat const v78 = v76 * 0.5f;  // aten.mul.Tensor
        vfloat const v79 = v78 + rA_20;  // aten.add.Tensor
        vfloat const v80 = math::tanh(v79);  // aten.tanh
        put(&mBetween9(i1), v28, n);
        put(&mBetween10(i1), v32, n);
        put(&mBetween12(i1), v36, n);
        put(&mBetween13(i1), v40, n);
        put(&mBetween15(i1), v44, n);
        put(&mBetween16(i1), v48, n);
        put(&mBetween18(i1), v52, n);
        put(&mBetween20(i1), v56, n);
        put(&mBetween22(i1), v60, n);
        put(&mBetween24(i1), v64, n);
        put(&mBetween26(i1), v68, n);
        put(&mBetween28(i1), v72, n);
        put(&mBetween30(i1), v76, n);
        put(&mBetween31(i1), v80, n);
      }
    }
    {
      for (int64_t i1 = 0; i1 < 20; ++i1) {
        for (int64_t i2 = 0; i2 < 32; i2 += kLanes) {
          constexpr int n = kLanes;
          vfloat const rBetween31 = uint64_t(i1 - 19) < 1 ? nearby<vfloat>(&mBetween31_2(i1, i2), 0, n) : vfloat{};
          vfloat const rBetween30 = uint64_t(i1 - 18) < 1 ? nearby<vfloat>(&mBetween30_2(i1, i2), 0, n) : vfloat{};
          bool const at = uint64_t(i1) < 19;
          vfloat const v3 = all(at) ? rBetween30 : rBetween31;  // aten.stack
          vfloat const rBetween28 = uint64_t(i1 - 17) < 1 ? nearby<vfloat>(&mBetween28_2(i1, i2), 0, n) : vfloat{};
          bool const at_2 = uint64_t(i1) < 18;
          vfloat const v6 = all(at_2) ? rBetween28 : v3;  // aten.stack
          vfloat const rBetween26 = uint64_t(i1 - 16) < 1 ? nearby<vfloat>(&mBetween26_2(i1, i2), 0, n) : vfloat{};
          bool const at_3 = uint64_t(i1) < 17;
          vfloat const v9 = all(at_3) ? rBetween26 : v6;  // aten.stack
          vfloat const rBetween24 = uint64_t(i1 - 15) < 1 ? nearby<vfloat>(&mBetween24_2(i1, i2), 0, n) : vfloat{};
          bool const at_4 = uint64_t(i1) < 16;
          vfloat const v12 = all(at_4) ? rBetween24 : v9;  // aten.stack
          vfloat const rBetween22 = uint64_t(i1 - 14) < 1 ? nearby<vfloat>(&mBetween22_2(i1, i2), 0, n) : vfloat{};
          bool const at_5 = uint64_t(i1) < 15;
          vfloat const v15 = all(at_5) ? rBetween22 : v12;  // aten.stack
          vfloat const rBetween20 = uint64_t(i1 - 13) < 1 ? nearby<vfloat>(&mBetween20_2(i1, i2), 0, n) : vfloat{};
          bool const at_6 = uint64_t(i1) < 14;
          vfloat const v18 = all(at_6) ? rBetween20 : v15;  // aten.stack
          vfloat const rBetween18 = uint64_t(i1 - 12) < 1 ? nearby<vfloat>(&mBetween18_2(i1, i2), 0, n) : vfloat{};
          bool const at_7 = uint64_t(i1) < 13;
          vfloat const v21 = all(at_7) ? rBetween18 : v18;  // aten.stack
          vfloat const rBetween16 = uint64_t(i1 - 11) < 1 ? nearby<vfloat>(&mBetween16_2(i1, i2), 0, n) : vfloat{};
          bool const at_8 = uint64_t(i1) < 12;
          vfloat const v24 = all(at_8) ? rBetween16 : v21;  // aten.stack
          vfloat const rBetween15 = uint64_t(i1 - 10) < 1 ? nearby<vfloat>(&mBetween15_2(i1, i2), 0, n) : vfloat{};
          bool const at_9 = uint64_t(i1) < 11;
          vfloat const v27 = all(at_9) ? rBetween15 : v24;  // aten.stack
          vfloat const rBetween13 = uint64_t(i1 - 9) < 1 ? nearby<vfloat>(&mBetween13_2(i1, i2), 0, n) : vfloat{};
          bool const at_10 = uint64_t(i1) < 10;
          vfloat const v30 = all(at_10) ? rBetween13 : v27;  // aten.stack
          vfloat const rBetween12 = uint64_t(i1 - 8) < 1 ? nearby<vfloat>(&mBetween12_2(i1, i2), 0, n) : vfloat{};
          bool const at_11 = uint64_t(i1) < 9;
          vfloat const v33 = all(at_11) ? rBetween12 : v30;  // aten.stack
          vfloat const rBetween10 = uint64_t(i1 - 7) < 1 ? nearby<vfloat>(&mBetween10_2(i1, i2), 0, n) : vfloat{};
          bool const at_12 = uint64_t(i1) < 8;
          vfloat const v36 = all(at_12) ? rBetween10 : v33;  // aten.stack
          vfloat const rBetween9 = uint64_t(i1 - 6) < 1 ? nearby<vfloat>(&mBetween9_2(i1, i2), 0, n) : vfloat{};
          bool const at_13 = uint64_t(i1) < 7;
          vfloat const v39 = all(at_13) ? rBetween9 : v36;  // aten.stack
          vfloat const rBetween7 = uint64_t(i1 - 5) < 1 ? nearby<vfloat>(&mBetween7_2(i1, i2), 0, n) : vfloat{};
          bool const at_14 = uint64_t(i1) < 6;
          vfloat const v42 = all(at_14) ? rBetween7 : v39;  // aten.stack
          vfloat const rBetween6 = uint64_t(i1 - 4) < 1 ? nearby<vfloat>(&mBetween6_2(i1, i2), 0, n) : vfloat{};
          bool const at_15 = uint64_t(i1) < 5;
          vfloat const v45 = all(at_15) ? rBetween6 : v42;  // aten.stack
          vfloat const rBetween5 = uint64_t(i1 - 3) < 1 ? nearby<vfloat>(&mBetween5_2(i1, i2), 0, n) : vfloat{};
          bool const at_16 = uint64_t(i1) < 4;
          vfloat const v48 = all(at_16) ? rBetween5 : v45;  // aten.stack
          vfloat const rBetween4 = uint64_t(i1 - 2) < 1 ? nearby<vfloat>(&mBetween4_2(i1, i2), 0, n) : vfloat{};
          bool const at_17 = uint64_t(i1) < 3;
          vfloat const v51 = all(at_17) ? rBetween4 : v48;  // aten.stack
          vfloat const rBetween3 = uint64_t(i1 - 1) < 1 ? nearby<vfloat>(&mBetween3_2(i1, i2), 0, n) : vfloat{};
          bool const at_18 = uint64_t(i1) < 2;
          vfloat const v54 = all(at_18) ? rBetween3 : v51;  // aten.stack
          vfloat const rBetween2 = uint64_t(i1) < 1 ? nearby<vfloat>(&mBetween2_2(i1, i2), 0, n) : vfloat{};
          bool const at_19 = uint64_t(i1) < 1;
          vfloat const v57 = all(at_19) ? rBetween2 : v54;  // aten.stack
          put(&mOutput(b0, i1, i2), v57, n);
        }
      }
// sort.cpp: 7 lines
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView output) {
  require(a, "a", {4, 20, 32}, {640, 32, 1}, kDLFloat, 32);
  require(b, "b", {4, 32}, {32, 1}, kDLFloat, 32);
  require(output, "output", {4, 20, 32}, {640, 32, 1}, kDLFloat, 32);

  float const* const pA = static_cast<float const*>(a.data_ptr());
  float const* const pB = static_cast<float const*>(b.data_ptr());
  float* const pOutput = static_cast<float*>(output.data_ptr());
  loops0(pA, pB, pOutput);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
